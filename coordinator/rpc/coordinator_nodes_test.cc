// Calls of and about nodes: leases, kernels, links, the cluster.
#include <catch2/catch.hpp>

#include "coordinator/rpc/services_under_test.h"

namespace medley {
namespace {

using Catch::Contains;
using Code = grpc::StatusCode;

TEST_CASE("a node has a lease of its incarnation, and a name of one live agent") {
  using Stub = v1::Registry::Stub;
  Site site;
  CHECK(site.Register(FakeNode("a", 1, 5)).lease_seconds() == 3600);
  v1::RenewRequest renew;
  renew.set_node("a");
  renew.set_incarnation(5);
  v1::RenewResponse renewed;
  REQUIRE(site.Call(&Stub::Renew, renew, renewed).ok());
  CHECK(renewed.lease_seconds() == 3600);
  renew.set_incarnation(6);
  CheckRefused(site.Try(&Stub::Renew, renew), Code::NOT_FOUND, {"a"});
  renew.set_node("b");
  CheckRefused(site.Try(&Stub::Renew, renew), Code::NOT_FOUND, {"b"});

  v1::RegisterRequest stranger = FakeNode("a", 1, 9);
  stranger.mutable_node()->set_agent_address("elsewhere:1");
  CheckRefused(site.Try(&Stub::Register, stranger), Code::ALREADY_EXISTS, {"a", "elsewhere:1"});
  site.Register(FakeNode("a", 1, 7));  // the same agent, started again

  // What of its tasks nobody waits for is to be stopped.
  v1::RegisterRequest with_tasks = FakeNode("a", 1, 8);
  with_tasks.add_tasks()->set_task_id("of-nobody");
  const v1::RegisterResponse answer = site.Register(with_tasks);
  CHECK(std::vector<std::string>(answer.stop_tasks().begin(), answer.stop_tasks().end()) ==
        std::vector<std::string>{"of-nobody"});
}

TEST_CASE("a node that leaves is not there, then forgotten; one that lives is not") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  site.Register(FakeNode("a", 1, 5));
  v1::ForgetNodeRequest forget;
  forget.set_node("a");
  CheckRefused(site.Try(&Stub::ForgetNode, forget), Code::FAILED_PRECONDITION, {"a"});
  v1::DeregisterRequest leave;
  leave.set_node("a");
  leave.set_incarnation(4);  // another's
  REQUIRE(site.Try(&v1::Registry::Stub::Deregister, leave).ok());
  v1::ListNodesResponse nodes;
  REQUIRE(site.Call(&Stub::ListNodes, v1::ListNodesRequest(), nodes).ok());
  REQUIRE(nodes.nodes_size() == 1);
  CHECK(nodes.nodes(0).alive());
  leave.set_incarnation(5);
  REQUIRE(site.Try(&v1::Registry::Stub::Deregister, leave).ok());
  REQUIRE(site.Call(&Stub::ListNodes, v1::ListNodesRequest(), nodes).ok());
  REQUIRE(nodes.nodes_size() == 1);
  CHECK_FALSE(nodes.nodes(0).alive());
  v1::ListKernelsRequest kernels;
  kernels.set_node("a");
  CheckRefused(site.Try(&Stub::ListKernels, kernels), Code::UNAVAILABLE, {"a"});
  REQUIRE(site.Try(&Stub::ForgetNode, forget).ok());
  REQUIRE(site.Call(&Stub::ListNodes, v1::ListNodesRequest(), nodes).ok());
  CHECK(nodes.nodes_size() == 0);
  CheckRefused(site.Try(&Stub::ForgetNode, forget), Code::NOT_FOUND, {"a"});
}

TEST_CASE("kernels are told by node, and of a node that does not answer why") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  v1::ListKernelsResponse all;
  REQUIRE(site.Call(&Stub::ListKernels, v1::ListKernelsRequest(), all).ok());
  CHECK(all.nodes_size() == 2);
  v1::ListKernelsRequest one;
  one.set_node("b");
  REQUIRE(site.Call(&Stub::ListKernels, one, all).ok());
  REQUIRE(all.nodes_size() == 1);
  CHECK(all.nodes(0).node() == "b");
  one.set_node("nowhere");
  CheckRefused(site.Try(&Stub::ListKernels, one), Code::NOT_FOUND, {"nowhere"});
  site.agents.TakeDown("b:1");
  one.set_node("b");
  CheckRefused(site.Try(&Stub::ListKernels, one), Code::UNAVAILABLE, {"b"});
  REQUIRE(site.Call(&Stub::ListKernels, v1::ListKernelsRequest(), all).ok());
  CHECK(all.nodes_size() == 2);
}

TEST_CASE("links are measured between free devices that are there") {
  using Stub = v1::Coordinator::Stub;
  Site site;
  site.Register(FakeNode("a"));
  site.Register(FakeNode("b"));
  v1::ExplainAllReduceRequest explain;
  explain.add_devices("a/cpu0");
  explain.set_bytes(1 << 20);
  CheckRefused(site.Try(&Stub::ExplainAllReduce, explain), Code::INVALID_ARGUMENT, {"two"});
  explain.add_devices("b/cpu0");
  CheckRefused(site.Try(&Stub::ExplainAllReduce, explain), Code::FAILED_PRECONDITION,
               {"a/cpu0", "b/cpu0", "not measured"});

  v1::MeasureLinksRequest measure;
  measure.add_devices("a/cpu0");
  CheckRefused(site.Try(&Stub::MeasureLinks, measure), Code::INVALID_ARGUMENT, {"two"});
  measure.add_devices("c/cpu0");
  CheckRefused(site.Try(&Stub::MeasureLinks, measure), Code::NOT_FOUND, {"c/cpu0"});
  v1::ListLinksRequest list;
  list.add_devices("c/cpu0");
  CheckRefused(site.Try(&Stub::ListLinks, list), Code::NOT_FOUND, {"c/cpu0"});

  measure.set_devices(1, "b/cpu0");
  v1::ListLinksResponse links;
  REQUIRE(site.Call(&Stub::MeasureLinks, measure, links).ok());
  REQUIRE(links.links_size() == 1);
  REQUIRE(site.Call(&Stub::ListLinks, v1::ListLinksRequest(), links).ok());
  CHECK(links.links_size() == 1);
  v1::AllReduceExplanation explanation;
  REQUIRE(site.Call(&Stub::ExplainAllReduce, explain, explanation).ok());
  CHECK(explanation.candidates_size() > 0);

  site.agents.SetTraining(TrainForEver);
  const std::string id = site.Submit(PinnedJob("busy", {"b/cpu0"})).id();
  site.Await(id, v1::JOB_STATE_RUNNING);
  CheckRefused(site.Try(&Stub::MeasureLinks, measure), Code::FAILED_PRECONDITION, {"b/cpu0", "in use"});
  v1::Job job;
  REQUIRE(site.Call(&Stub::CancelJob, About<v1::CancelJobRequest>(id), job).ok());
  site.Await(id, v1::JOB_STATE_CANCELLED);

  v1::DeregisterRequest leave;
  leave.set_node("b");
  leave.set_incarnation(1);
  REQUIRE(site.Try(&v1::Registry::Stub::Deregister, leave).ok());
  list.set_devices(0, "b/cpu0");
  CheckRefused(site.Try(&Stub::ListLinks, list), Code::FAILED_PRECONDITION, {"b"});
}

TEST_CASE("a cluster is exported with its devices, and with how far predictions were off there") {
  Site site;
  site.Register(FakeNode("a", 2));
  v1::PredictionOutcome outcome;
  outcome.set_launch(1);
  outcome.set_job_id("past-1");
  outcome.set_predicted_step_seconds(3);
  outcome.set_measured_step_seconds(2);
  REQUIRE(site.store->PutPredictionOutcome(outcome).ok());
  v1::ClusterSpec cluster;
  REQUIRE(site.Call(&v1::Coordinator::Stub::ExportCluster, v1::ExportClusterRequest(), cluster).ok());
  CHECK_THAT(cluster.ShortDebugString(), Contains("cpu0") && Contains("cpu1"));
  REQUIRE(cluster.live_errors_size() == 1);
  CHECK(cluster.live_errors(0).error() == 0.5);
}

}  // namespace
}  // namespace medley
