#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/session/dialer.h"
#include "comm/session/handshake.h"
#include "comm/session/open_questions.h"
#include "comm/session/session.h"
#include "comm/session/session_address.h"
#include "comm/session/socket.h"
#include "comm/transport/peer_set.h"
#include "runtime/base/mutex.h"

namespace medley {

// The thread of a session with all its sockets. From the start it authenticates whoever connects; from
// Connect on it connects itself. One mutex over everything, not held in epoll_wait nor in callbacks.
class SessionLoop {
 public:
  // Starts the thread. `address`: of this rank, encoded. Internal, Unavailable: the system gives no
  // descriptors.
  static absl::StatusOr<std::unique_ptr<SessionLoop>> Start(const Session::Options& options,
                                                            const std::string& address,
                                                            std::vector<Descriptor> listeners);
  // Joins the thread, and disconnects.
  ~SessionLoop();
  SessionLoop(const SessionLoop&) = delete;
  SessionLoop& operator=(const SessionLoop&) = delete;

  struct Peer {
    std::vector<Endpoint> endpoints;
    Digest address = {};
  };
  bool IsPeer(int rank) const { return IsAmong(is_peer_, rank); }
  // The methods of Session; `peers` by rank.
  absl::Status Connect(const std::vector<Peer>& peers, absl::Time deadline);
  const std::string& payload(int rank) const;
  void OnGone(Session::GoneCallback callback);
  void OnQuestion(std::function<std::string(int, const std::string&)> callback);
  std::vector<absl::StatusOr<std::string>> AskAll(const std::vector<int>& ranks, const std::string& question,
                                                  absl::Time deadline);
  void Close(absl::Time deadline, const std::string& failure);
  uint64_t refused() const { return refused_; }

 private:
  enum class Phase { kListening, kConnecting, kConnected, kFailed, kClosing };
  // A connection at any stage.
  struct Wire {
    enum class Stage { kDialing, kProving, kMember };
    Stage stage = Stage::kProving;
    int rank = -1;         // whom it leads to; -1: nobody has proved it yet
    bool is_ours = false;  // this rank has opened it
    Descriptor socket;
    std::optional<Handshake> handshake;                    // of kProving
    FrameDecoder decoder;                                  // of kMember
    std::string out;                                       // not yet with the system
    bool awaits_room = false;                              // epoll tells when more can be sent
    absl::Duration expires_at = absl::InfiniteDuration();  // before kMember
    absl::Duration heard_at = absl::ZeroDuration();        // of kMember
  };
  struct Member {
    enum class State { kAbsent, kConnected, kGone };
    State state = State::kAbsent;
    uint64_t wire = 0;
    std::string payload;
    Digest address = {};
    std::string why;  // of kGone
  };
  struct Notice {
    int rank = 0;
    bool left = false;
    std::string why;
  };
  struct Question {
    int rank = 0;
    Enquiry enquiry;
  };

  SessionLoop(const Session::Options& options, const std::string& address, std::vector<Descriptor> listeners);
  absl::Status Open();
  void Wake();
  // The question's id.
  absl::StatusOr<uint64_t> BeginQuestion(int rank, const std::string& question)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string DescribeMissing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The thread.
  void Run();
  void Deliver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tick(absl::Duration now, bool may_judge) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dial(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Listen(bool on) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A wire's life.
  void Accept(const Descriptor& listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldestStranger() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Add(Wire wire, uint32_t events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Handle(uint64_t id, uint32_t events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishDialing(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Read(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Prove(uint64_t id, const std::string& bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Flush(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The connection is of no more use; a member is gone with it.
  void Break(uint64_t id, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A member's life.
  void Admit(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadFrames(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Say(uint64_t id, Frame::Type type, std::string_view body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkGone(int rank, bool left, const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckAddress(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckConnected() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailConnect(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Session::Options options_;
  const std::vector<bool> is_peer_;  // by rank
  std::vector<Descriptor> listeners_;
  Descriptor epoll_, wake_;
  Handshake::Self self_;
  std::atomic<uint64_t> refused_{0};

  Mutex mutex_;
  ConditionVariable changed_;  // phase, members, answers
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kListening;
  absl::Status connect_error_ ABSL_GUARDED_BY(mutex_);  // of kFailed
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  int connected_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Peer> peers_ ABSL_GUARDED_BY(mutex_);         // once Connect has told them
  std::map<int, Dialer> dialers_ ABSL_GUARDED_BY(mutex_);   // of the ranks that this one connects to
  std::map<uint64_t, Wire> wires_ ABSL_GUARDED_BY(mutex_);  // by id, so the oldest first
  uint64_t last_wire_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> unsent_ ABSL_GUARDED_BY(mutex_);  // wires to flush
  size_t strangers_ ABSL_GUARDED_BY(mutex_) = 0;          // wires that others opened and have not proved
  bool is_listening_ ABSL_GUARDED_BY(mutex_) = false;
  OpenQuestions open_questions_ ABSL_GUARDED_BY(mutex_);
  std::vector<Notice> notices_ ABSL_GUARDED_BY(mutex_);      // to be delivered
  std::vector<Question> questions_ ABSL_GUARDED_BY(mutex_);  // to be answered
  Session::GoneCallback on_gone_ ABSL_GUARDED_BY(mutex_);
  std::function<std::string(int, const std::string&)> on_question_ ABSL_GUARDED_BY(mutex_);
  absl::Duration next_tick_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  absl::Duration next_heartbeat_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  std::thread thread_;
};

}  // namespace medley
