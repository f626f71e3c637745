// Times Open MPI's all-reduce of floats in place: mpirun ... openmpi_all_reduce BYTES ITERATIONS
// Prints the slowest rank's median.
#include <mpi.h>

#include "comm/collective/time_all_reduce.h"

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  if (count != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  double seconds = MedianSeconds(std::strtoull(arguments[1], nullptr, 10), std::atoi(arguments[2]), ranks,
                                 [](std::vector<float>& values) {
                                   MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                                                 MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                                 });
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) std::printf("allreduce_microseconds %.2f\n", seconds * 1e6);
  MPI_Finalize();
}
