#include "coordinator/planner/classes/master.h"

#include <coin/Cbc_C_Interface.h>
#include <coin/Clp_C_Interface.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace medley {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::max();

// A plan takes thousands of these programs, and each takes and frees some hundred kilobytes. Where those end the heap, malloc gives
// them back to the system and gets them again, page by page, each time: a fifth of the time of planning and more.
void KeepFreedMemory() {
  static const bool is_kept = [] {
    constexpr int kMiB = 1 << 20;
    mallopt(M_TRIM_THRESHOLD, 64 * kMiB);
    mallopt(M_TOP_PAD, kMiB);
    // Any of these ends malloc's own learning, so this says where that would have ended.
    mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
    return true;  // or a libc that knows no such thing: planning takes longer
  }();
  static_cast<void>(is_kept);
}

// Columns by their entries, as COIN-OR's interfaces take them.
struct Matrix {
  std::vector<int> starts = {0}, rows;
  std::vector<double> entries, values, lower, upper;
};

Matrix MatrixOf(const std::vector<MasterColumn>& columns, const std::vector<double>& limits) {
  Matrix matrix;
  for (const MasterColumn& column : columns) {
    double most = std::numeric_limits<double>::infinity();
    for (size_t row = 0; row < limits.size(); ++row) {
      if (column.uses[row] == 0) continue;
      matrix.rows.push_back(static_cast<int>(row));
      matrix.entries.push_back(column.uses[row]);
      most = std::min(most, std::floor(limits[row] / column.uses[row]));
    }
    matrix.rows.push_back(static_cast<int>(limits.size()));
    matrix.entries.push_back(1);
    matrix.starts.push_back(static_cast<int>(matrix.rows.size()));
    matrix.values.push_back(column.value);
    matrix.lower.push_back(0);
    matrix.upper.push_back(most);
  }
  return matrix;
}

}  // namespace

MasterRelaxation SolveRelaxed(const std::vector<MasterColumn>& columns, const std::vector<double>& limits,
                              RouteCount routes) {
  KeepFreedMemory();
  const Matrix matrix = MatrixOf(columns, limits);
  const int rows = static_cast<int>(limits.size()) + 1, count = static_cast<int>(columns.size());
  std::vector<double> row_upper(limits.begin(), limits.end());
  row_upper.push_back(routes.most);
  std::vector<double> row_lower(rows, -kUnlimited);
  if (routes.least > 0) row_lower.back() = routes.least;
  const std::vector<double> upper(count, kUnlimited);
  const std::unique_ptr<Clp_Simplex, decltype(&Clp_deleteModel)> model(Clp_newModel(), Clp_deleteModel);
  Clp_setLogLevel(model.get(), 0);
  Clp_setOptimizationDirection(model.get(), -1);
  Clp_loadProblem(model.get(), count, rows, matrix.starts.data(), matrix.rows.data(), matrix.entries.data(),
                  matrix.lower.data(), upper.data(), matrix.values.data(), row_lower.data(),
                  row_upper.data());
  Clp_primal(model.get(), 0);
  MasterRelaxation result;
  if (Clp_status(model.get()) != 0) return result;
  const double* amounts = Clp_primalColumnSolution(model.get());
  result.amounts.assign(amounts, amounts + count);
  const double* prices = Clp_dualRowSolution(model.get());
  for (int row = 0; row + 1 < rows; ++row) result.prices.push_back(std::max(0.0, prices[row]));
  result.route_price = prices[rows - 1];
  for (int c = 0; c < count; ++c) result.value += columns[c].value * amounts[c];
  return result;
}

std::vector<int> SolveWhole(const std::vector<MasterColumn>& columns, const std::vector<double>& limits,
                            RouteCount routes, double enough, int most_nodes) {
  const Matrix matrix = MatrixOf(columns, limits);
  const int count = static_cast<int>(columns.size());
  std::vector<double> row_upper(limits.begin(), limits.end());
  row_upper.push_back(routes.most);
  std::vector<double> row_lower(row_upper.size(), -kUnlimited);
  if (routes.least > 0) row_lower.back() = routes.least;
  std::vector<double> costs;
  for (const double value : matrix.values) costs.push_back(-value);
  const std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)> model(Cbc_newModel(), Cbc_deleteModel);
  Cbc_setLogLevel(model.get(), 0);
  Cbc_loadProblem(model.get(), count, static_cast<int>(row_upper.size()), matrix.starts.data(),
                  matrix.rows.data(), matrix.entries.data(), matrix.lower.data(), matrix.upper.data(),
                  costs.data(), row_lower.data(), row_upper.data());
  for (int c = 0; c < count; ++c) Cbc_setInteger(model.get(), c);
  // What is worth less than `enough` is of no use, and the first that is not is.
  Cbc_setCutoff(model.get(), -enough + 0.5);
  Cbc_setMaximumSolutions(model.get(), 1);
  Cbc_setMaximumNodes(model.get(), most_nodes);
  // Few rows: cuts cost more than they save.
  Cbc_setParameter(model.get(), "cuts", "off");
  Cbc_setParameter(model.get(), "preprocess", "off");
  Cbc_solve(model.get());
  const double* found = Cbc_bestSolution(model.get());
  if (found == nullptr) return {};
  std::vector<int> whole;
  double value = 0;
  for (int c = 0; c < count; ++c) {
    whole.push_back(static_cast<int>(std::lround(found[c])));
    value += columns[c].value * whole.back();
  }
  if (value < enough) return {};
  return whole;
}

}  // namespace medley
