#include "runtime/web/web_server.h"

#include <httplib.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "runtime/base/can_listen.h"
#include "runtime/base/loopback.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/request_id.h"
#include "runtime/security/credentials.h"
#include "runtime/security/openssl_handles.h"
#include "runtime/web/connection_gate.h"
#include "runtime/web/web_stream.h"

namespace medley {
namespace {

constexpr size_t kMostBody = size_t{16} << 20;
constexpr int kWorkers = 64;
constexpr int kMostStreams = 48;  // each open page holds a worker while it watches; the others answer
constexpr int kRequestsOfConnection = 1000;
constexpr char kRequestIdHeader[] = "X-Request-Id";
constexpr absl::Duration kHandshakeLimit = absl::Seconds(10), kHeadLimit = absl::Seconds(10),
                         kIdleLimit = absl::Seconds(60);

// What each answer has. Scripts and styles that stand in a page are for the page's own policy to allow; nobody frames one.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Cache-Control", "no-store"},
    {"Content-Security-Policy",
     "frame-ancestors 'none'; base-uri 'none'; object-src 'none'; form-action 'self'"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
};

// Files are read for each connection, so that new certificates are shown, and those of an authority that is no more refused, as soon as
// they are there.
int ShowNewest(SSL* ssl, void* argument) {
  const v1::TlsConfig& tls = *static_cast<const v1::TlsConfig*>(argument);
  X509_STORE* const believed = X509_STORE_new();
  const bool read = X509_STORE_load_locations(believed, tls.authority().c_str(), nullptr) == 1;
  if (!read) X509_STORE_free(believed);
  return read && SSL_set0_verify_cert_store(ssl, believed) == 1 &&
                 SSL_use_certificate_chain_file(ssl, tls.certificate().c_str()) == 1 &&
                 SSL_use_PrivateKey_file(ssl, tls.key().c_str(), SSL_FILETYPE_PEM) == 1
             ? 1
             : 0;
}

void SetUpTls(SSL_CTX& context, const v1::TlsConfig& tls) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  SSL_CTX_set_cert_cb(&context, ShowNewest, const_cast<v1::TlsConfig*>(&tls));
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER, nullptr);  // those who show one; others go on without
  SSL_CTX_set_client_CA_list(&context, SSL_load_client_CA_file(tls.authority().c_str()));
  // A session that is resumed would not be looked at again.
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET);
  // The files were looked at before, and are read by ShowNewest.
}

std::string CertificateOf(const SSL* ssl) {
  const CertificateHandle shown(ssl == nullptr ? nullptr : SSL_get1_peer_certificate(ssl));
  if (shown == nullptr) return "";
  const BioHandle to(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(to.get(), shown.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(to.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

// Whether httplib reads the body of such a request.
bool ReadsBodyOf(const std::string& method) {
  return method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE";
}

// Its connections are the gate's: what httplib accepts is handed over at once, and comes back as requests.
class HttpServer final : public httplib::Server {
 public:
  void Open(ConnectionGate::Options options) {
    options.serve = [this](WebConnection& connection) { return Serve(connection); };
    gate_ = std::make_unique<ConnectionGate>(std::move(options));
  }
  // Once it is bound: httplib lets five clients wait to be accepted, and a sixth comes again after a second.
  void LetManyWait() { ::listen(svr_sock_, ConnectionGate::kMostConnections); }
  // After stop().
  void Close() { gate_ = nullptr; }

 private:
  bool process_and_close_socket(socket_t socket) override {
    gate_->Add(socket);
    return true;
  }

  bool Serve(WebConnection& connection) {
    WebStream stream(connection);
    bool is_over = false;
    const bool is_last = connection.CountRequest() >= kRequestsOfConnection;
    const bool answered = process_request(stream, is_last, is_over,
                                          [&](httplib::Request& request) { request.ssl = connection.tls(); });
    return answered && !is_over && !is_last && !stream.ends();
  }

  std::unique_ptr<ConnectionGate> gate_;
};

// In the accepting thread.
class AtOnce final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override {}
};

}  // namespace

struct WebServer::Impl {
  Options options;
  std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>> context;  // null: in the clear
  HttpServer server;
  mutable std::atomic<int> streams = 0;
  bool is_for_this_machine = false;
  std::string address;
  std::thread thread;

  // Why a browser may have been talked into this request by another's page; "": it was not.
  std::string WhyNot(const httplib::Request& request) const {
    const std::string host = request.get_header_value("Host"), origin = request.get_header_value("Origin");
    if (is_for_this_machine && !IsLoopbackHost(HostOfAddress(host)))
      return absl::StrCat("this server is not known as \"", host, "\"");
    const std::string site = origin.substr(
        std::min(origin.size(), origin.find("://") == std::string::npos ? 0 : origin.find("://") + 3));
    if (!origin.empty() && site != host) return absl::StrCat("a page of \"", origin, "\" may not ask here");
    const std::string type = request.get_header_value("Content-Type");
    if (request.method != "GET" && request.method != "HEAD" && !absl::StartsWith(type, "application/json") &&
        !absl::StartsWith(type, "application/yaml"))
      return absl::StrCat("Content-Type: \"", type, "\" is neither application/json nor application/yaml");
    return "";
  }

  // Of the request that this thread serves.
  const absl::StatusOr<Certificate>& WhoAsks() const {
    std::optional<absl::StatusOr<Certificate>>& who = WebStream::Current().who;
    if (!who.has_value() && options.tls == nullptr)
      who = Certificate{.identity = {.role = v1::ROLE_ADMIN}, .valid_until = absl::InfiniteFuture()};
    if (!who.has_value())
      who = WhoCalls(*options.tls, CertificateOf(WebStream::Current().connection().tls()));
    return *who;
  }

  WebRequest RequestOf(const httplib::Request& from) const {
    const absl::StatusOr<Certificate>& who = WhoAsks();
    return {.method = from.method,
            .path = from.path,
            .parameters = {from.params.begin(), from.params.end()},
            .content_type = from.get_header_value("Content-Type"),
            .body = from.body,
            .caller = who.ok() ? who->identity : Identity(),
            .caller_until = who.ok() ? who->valid_until : absl::InfiniteFuture(),
            .is_open = [&connection = WebStream::Current().connection()] { return connection.IsOpen(); }};
  }

  // Before the body is read. False: the request is answered.
  bool Admit(const httplib::Request& from, httplib::Response& to) const {
    to.set_header(kRequestIdHeader, RequestIdOr(from.get_header_value(kRequestIdHeader)));
    const auto refuse = [&](int status, const std::string& why) {
      to.status = status;
      to.set_header("Connection", "close");
      WebStream::Current().EndAfterAnswer();  // what follows is the body that nobody reads
      to.set_content(why + "\n", "text/plain; charset=utf-8");
      return false;
    };
    if (const std::string why = WhyNot(from); !why.empty()) return refuse(403, why);
    const bool has_body =
        (from.method != "GET" && from.method != "HEAD") || from.has_header("Content-Length");
    if (from.has_header("Transfer-Encoding") || (has_body && !from.has_header("Content-Length")))
      return refuse(411, "Content-Length: is needed, and the body as a whole");
    uint64_t length = 0;
    if (from.get_header_value_count("Content-Length") > 1)
      return refuse(400, "Content-Length: is given more than once");
    if (has_body && !absl::SimpleAtoi(from.get_header_value("Content-Length"), &length))
      return refuse(400, "Content-Length: is not a number");
    if (length > kMostBody)
      return refuse(413, absl::StrCat("Content-Length: is ", length, ", and may be ", kMostBody));
    // httplib leaves it for the next request.
    if (length > 0 && !ReadsBodyOf(from.method))
      return refuse(400, absl::StrCat("Content-Length: a ", from.method, " has no body here"));
    // What is packed may be as large as anything.
    if (from.has_header("Content-Encoding"))
      return refuse(415, "Content-Encoding: is not understood; send the body as it is");
    if (length > 0 && !WhoAsks().ok()) return refuse(401, "a client certificate is needed");
    return true;
  }

  void Answer(const httplib::Request& from, httplib::Response& to) const {
    const RequestScope scope(to.get_header_value(kRequestIdHeader));
    WebAnswer answer = options.handler(RequestOf(from));
    to.status = answer.status;
    if (answer.stream == nullptr) return to.set_content(answer.body, answer.content_type);
    if (streams.fetch_add(1) >= kMostStreams) {
      --streams;
      to.status = 503;
      return to.set_content(absl::StrCat("no more than ", kMostStreams, " streams may be open here\n"),
                            "text/plain; charset=utf-8");
    }
    to.set_chunked_content_provider(
        answer.content_type,
        [stream = std::move(answer.stream)](size_t, httplib::DataSink& sink) {
          stream([&](const std::string& text) {
            if (text.empty()) return sink.is_writable();
            return sink.is_writable() && sink.write(text.data(), text.size());
          });
          sink.done();
          return true;
        },
        [this](bool) { --streams; });
  }

  // What httplib refuses by itself, it does without a word.
  void Explain(httplib::Response& to) const {
    if (WebStream::Current().was_silent()) {
      to.status = 408;
      to.set_header("Connection", "close");
      to.set_content(
          absl::StrCat("a request's body must come within ", absl::FormatDuration(WebStream::kSilenceLimit),
                       " and ", WebStream::kLeastBytesPerSecond, " bytes a second\n"),
          "text/plain; charset=utf-8");
    } else if (to.body.empty()) {
      to.set_content(
          to.status == 404 ? "there is nothing here for this method\n" : "the request cannot be read\n",
          "text/plain; charset=utf-8");
    }
  }

  void SetUp() {
    server.new_task_queue = [] { return new AtOnce; };
    server.set_payload_max_length(kMostBody);
    server.set_default_headers(httplib::Headers(std::begin(kHeaders), std::end(kHeaders)));
    // Not SO_REUSEPORT, which is httplib's own: two servers would share the port.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    const auto answer = [this](const httplib::Request& from, httplib::Response& to) { Answer(from, to); };
    server.set_pre_routing_handler([this](const httplib::Request& from, httplib::Response& to) {
      return Admit(from, to) ? httplib::Server::HandlerResponse::Unhandled
                             : httplib::Server::HandlerResponse::Handled;
    });
    server.set_error_handler([this](const httplib::Request&, httplib::Response& to) { Explain(to); });
    server.Get("/.*", answer);
    server.Post("/.*", answer);
    server.Open({.tls = context.get(),
                 .workers = kWorkers,
                 .handshake_limit = kHandshakeLimit,
                 .head_limit = kHeadLimit,
                 .idle_limit = kIdleLimit,
                 .headers = absl::StrJoin(kHeaders, "",
                                          [](std::string* out, const auto& header) {
                                            absl::StrAppend(out, header.first, ": ", header.second, "\r\n");
                                          }),
                 .serve = nullptr});
  }
};

absl::StatusOr<std::unique_ptr<WebServer>> WebServer::Start(Options options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  const v1::TlsConfig* tls = impl->options.tls;
  if (tls != nullptr) {
    RETURN_IF_ERROR(CheckTls(*tls).status());
    impl->context.reset(SSL_CTX_new(TLS_server_method()));
    SetUpTls(*impl->context, *tls);
  }
  impl->SetUp();
  HttpServer& server = impl->server;
  const std::string& address = impl->options.address;
  const std::string host = HostOfAddress(address);
  int port = 0;
  const bool has_port = absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port);
  impl->is_for_this_machine = tls == nullptr && IsLoopbackHost(host);
  const std::string bare(absl::StripSuffix(absl::StripPrefix(host, "["), "]"));
  if (has_port && port == 0) {
    port = server.bind_to_any_port(bare);
  } else if (!has_port || !server.bind_to_port(bare, port)) {
    port = -1;
  }
  if (port < 0) return CannotListen(impl->options.field, address);
  server.LetManyWait();
  impl->address = absl::StrCat(host, ":", port);
  impl->thread = std::thread([&server] { server.listen_after_bind(); });
  return std::unique_ptr<WebServer>(new WebServer(std::move(impl)));
}

WebServer::WebServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

WebServer::~WebServer() {
  // It may not have begun yet, and what has not begun cannot be stopped.
  while (!impl_->server.is_running()) std::this_thread::yield();
  impl_->server.stop();
  impl_->thread.join();
  impl_->server.Close();
}

const std::string& WebServer::address() const { return impl_->address; }

}  // namespace medley
