#include "runtime/web/web_server.h"

#include <httplib.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/loopback.h"
#include "runtime/base/status_macros.h"
#include "runtime/security/credentials.h"
#include "runtime/security/openssl_handles.h"

namespace medley {
namespace {

constexpr size_t kMostBody = size_t{16} << 20;
constexpr size_t kThreads = 64;  // each open page holds one while it watches
constexpr int kRequestsOfConnection = 1000;
constexpr time_t kPatienceSeconds = 10;

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

bool SetUp(SSL_CTX& context, const v1::TlsConfig& tls) {
  SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION);
  SSL_CTX_set_cert_cb(&context, ShowNewest, const_cast<v1::TlsConfig*>(&tls));
  SSL_CTX_set_verify(&context, SSL_VERIFY_PEER, nullptr);  // those who show one; others go on without
  SSL_CTX_set_client_CA_list(&context, SSL_load_client_CA_file(tls.authority().c_str()));
  // A session that is resumed would not be looked at again.
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(&context, SSL_OP_NO_TICKET);
  return true;  // the files were looked at before, and are read by ShowNewest
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

WebRequest RequestOf(const httplib::Request& from, const v1::TlsConfig* tls) {
  WebRequest request{.method = from.method,
                     .path = from.path,
                     .parameters = {from.params.begin(), from.params.end()},
                     .content_type = from.get_header_value("Content-Type"),
                     .body = from.body,
                     .caller = {}};
  if (tls == nullptr) {
    request.caller.role = v1::ROLE_ADMIN;
  } else if (const absl::StatusOr<Identity> who = WhoCalls(*tls, CertificateOf(from.ssl)); who.ok()) {
    request.caller = *who;
  }
  return request;
}

}  // namespace

struct WebServer::Impl {
  Options options;
  std::unique_ptr<httplib::Server> server;
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
    if (request.method == "POST" && !absl::StartsWith(type, "application/json") &&
        !absl::StartsWith(type, "application/yaml"))
      return absl::StrCat("Content-Type: \"", type, "\" is neither application/json nor application/yaml");
    return "";
  }

  // Before the body is read. False: the request is answered.
  bool Admit(const httplib::Request& from, httplib::Response& to) const {
    to.set_header("X-Content-Type-Options", "nosniff");
    to.set_header("Cache-Control", "no-store");
    const auto refuse = [&](int status, const std::string& why) {
      to.status = status;
      to.set_header("Connection", "close");  // what follows is the body that nobody reads
      to.set_content(why + "\n", "text/plain; charset=utf-8");
      return false;
    };
    if (const std::string why = WhyNot(from); !why.empty()) return refuse(403, why);
    const bool has_body =
        (from.method != "GET" && from.method != "HEAD") || from.has_header("Content-Length");
    if (from.has_header("Transfer-Encoding") || (has_body && !from.has_header("Content-Length")))
      return refuse(411, "Content-Length: is needed, and the body as a whole");
    uint64_t length = 0;
    if (has_body && !absl::SimpleAtoi(from.get_header_value("Content-Length"), &length))
      return refuse(400, "Content-Length: is not a number");
    if (length > kMostBody)
      return refuse(413, absl::StrCat("Content-Length: is ", length, ", and may be ", kMostBody));
    if (options.tls != nullptr && length > 0 && !WhoCalls(*options.tls, CertificateOf(from.ssl)).ok())
      return refuse(401, "a client certificate is needed");
    return true;
  }

  void Answer(const httplib::Request& from, httplib::Response& to) const {
    WebAnswer answer = options.handler(RequestOf(from, options.tls));
    to.status = answer.status;
    if (answer.stream == nullptr) return to.set_content(answer.body, answer.content_type);
    to.set_chunked_content_provider(answer.content_type,
                                    [stream = std::move(answer.stream)](size_t, httplib::DataSink& sink) {
                                      stream([&](const std::string& text) {
                                        if (text.empty()) return sink.is_writable();
                                        return sink.is_writable() && sink.write(text.data(), text.size());
                                      });
                                      sink.done();
                                      return true;
                                    });
  }
};

absl::StatusOr<std::unique_ptr<WebServer>> WebServer::Start(Options options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  const v1::TlsConfig* tls = impl->options.tls;
  if (tls != nullptr) {
    RETURN_IF_ERROR(CheckTls(*tls).status());
    impl->server =
        std::make_unique<httplib::SSLServer>([tls](SSL_CTX& context) { return SetUp(context, *tls); });
  } else {
    impl->server = std::make_unique<httplib::Server>();
  }
  httplib::Server& server = *impl->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_payload_max_length(kMostBody);
  server.set_keep_alive_max_count(kRequestsOfConnection);
  server.set_read_timeout(kPatienceSeconds);
  server.set_write_timeout(kPatienceSeconds);
  server.set_tcp_nodelay(true);
  // Not SO_REUSEPORT, which is httplib's own: two servers would share the port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  const auto answer = [raw = impl.get()](const httplib::Request& from, httplib::Response& to) {
    raw->Answer(from, to);
  };
  server.set_pre_routing_handler([raw = impl.get()](const httplib::Request& from, httplib::Response& to) {
    return raw->Admit(from, to) ? httplib::Server::HandlerResponse::Unhandled
                                : httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/.*", answer);
  server.Post("/.*", answer);
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
  if (port < 0)
    return absl::UnavailableError(
        absl::StrCat(impl->options.field, ": cannot listen at ", address, "; is it in use?"));
  impl->address = absl::StrCat(host, ":", port);
  impl->thread = std::thread([&server] { server.listen_after_bind(); });
  return std::unique_ptr<WebServer>(new WebServer(std::move(impl)));
}

WebServer::WebServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

WebServer::~WebServer() {
  // It may not have begun yet, and what has not begun cannot be stopped.
  while (!impl_->server->is_running()) std::this_thread::yield();
  impl_->server->stop();
  impl_->thread.join();
}

const std::string& WebServer::address() const { return impl_->address; }

}  // namespace medley
