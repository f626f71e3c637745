"""What the dashboard's tests run it on: a cluster whose coordinator serves pages, and a way in for somebody with a certificate."""
import http.client
import http.server
import json
import threading

from cluster import Cluster


class SiteCluster(Cluster):
    """A cluster whose coordinator serves its pages."""

    def __init__(self, directory, **options):
        super().__init__(directory, pages=True, **options)

    def call(self, method, request):
        """An rpc's answer, over HTTP: a process for each call would take long where there are a thousand."""
        connection = http.client.HTTPConnection(self.site, timeout=120)
        try:
            connection.request("POST", "/api/v1/" + method, json.dumps(request), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise AssertionError("%s: %d: %s" % (method, answer.status, text))
            return json.loads(text)
        finally:
            connection.close()


class WayIn:
    """Serves what another server has, and shows that one a certificate: a browser without a window cannot be made to choose one
    without a policy for all of its machine."""

    def __init__(self, target, tls):
        """`tls`: an ssl.SSLContext."""
        class Handler(http.server.BaseHTTPRequestHandler):
            def pass_on(self):
                connection = http.client.HTTPSConnection(target, context=tls, timeout=120)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name: self.headers[name] for name in ("Content-Type",) if name in self.headers}
                try:
                    connection.request(self.command, self.path, body, headers)
                    answer = connection.getresponse()
                    self.send_response(answer.status)
                    self.send_header("Content-Type", answer.getheader("Content-Type"))
                    self.end_headers()
                    while part := answer.read1():
                        self.wfile.write(part)
                        self.wfile.flush()
                except (OSError, http.client.HTTPException):
                    self.close_connection = True  # one of the two has gone
                finally:
                    connection.close()

            do_GET = do_POST = pass_on

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
