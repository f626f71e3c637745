#pragma once
#include <ucp/api/ucp.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "comm/ucx/ucx_address.h"
#include "runtime/base/mutex.h"

namespace medley {

// The UCX endpoints of all peers of a rank. Every call, and UCX's callbacks, with the engine's mutex held.
class UcxEndpoints {
 public:
  // `lost` is told of a peer when it is gone, once; `changed` when a flush has ended or a peer is gone.
  UcxEndpoints(ucp_worker_h worker, int size, ConditionVariable& changed, std::function<void(int rank)> lost);
  UcxEndpoints(const UcxEndpoints&) = delete;
  UcxEndpoints& operator=(const UcxEndpoints&) = delete;

  // Over shared memory (`local`), or over network devices. FailedPrecondition: open already.
  absl::Status Open(const UcxAddress& address, bool local);
  ucp_ep_h get(int rank) const { return peers_[rank].endpoint; }
  // OK, or Unavailable with the reason.
  const absl::Status& gone(int rank) const { return peers_[rank].gone; }
  // Whether it was opened over shared memory.
  bool IsLocal(int rank) const { return peers_[rank].process.id != 0; }
  // Whether the peer is a process of this host that has ended.
  bool HasEnded(int rank) const;
  // "tcp", "shared memory", ...; empty before it is open.
  const std::string& path(int rank) const { return peers_[rank].path; }
  // To be called once connected, when UCX has chosen its lanes.
  void FindPaths();

  // Starts to wait until the peer is connected and all sent to it is on its way. (Not an orderly
  // ucp_ep_close_nbx: over TCP that one waits for the peer to progress, which one that closed before does
  // not.)
  void Flush(int rank);
  void FlushAll();
  // Ranks, not gone, whose flush has not ended.
  std::vector<int> Flushing() const;
  bool AllFlushed() const;
  // Unavailable: a peer is gone. Others: as UCX says of the last flush.
  absl::Status FlushError() const;

  // Should UCX find the peer gone before Lose is called, this is why, and not what UCX says of its
  // connection. The first reason stays. Needs no mutex held, and waits for nobody's calls of UCX.
  void Expect(int rank, const std::string& why);
  // The peer counts as gone; the first reason stays. A network connection is cut: what UCX holds for it comes
  // back by callbacks. Over shared memory UCX 1.13 has no such thing.
  void Lose(int rank, const std::string& why);
  // Cuts all network connections.
  void CutAll();
  // Whether a flush is under way that UCX cannot take back.
  bool Stuck() const;

 private:
  struct Peer {
    UcxEndpoints* all = nullptr;
    int rank = 0;
    ucp_ep_h endpoint = nullptr;
    ucp_err_handling_mode_t error_mode = UCP_ERR_HANDLING_MODE_NONE;
    ProcessIdentity process;  // id 0: not over shared memory
    std::string path;
    absl::Status gone;
    void* pending = nullptr;  // request of a flush under way
    absl::Status flushed;     // answer of the last one
  };
  static void OnPeerError(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static void OnFlushed(void* request, ucs_status_t status, void* peer);
  void CountAsGone(Peer& peer, const std::string& why);
  void Cut(Peer& peer);

  ucp_worker_h worker_;
  ConditionVariable& changed_;
  std::function<void(int rank)> lost_;
  std::vector<Peer> peers_;  // by rank
  Mutex expected_mutex_;     // taken last
  std::map<int, std::string> expected_ ABSL_GUARDED_BY(expected_mutex_);
};

}  // namespace medley
