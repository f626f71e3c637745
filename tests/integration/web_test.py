"""What the coordinator serves over HTTP, to scripts: the rpcs as JSON, and who may ask."""
import http.client
import json
import os
import tempfile
import unittest

from cluster import Process, program, wait_for, write_file, write_spec


class WebTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = directory.name
        address_file = cls.path("http-address")
        config = write_spec(cls.path("coordinator.yaml"), {
            "listen_address": "127.0.0.1:0", "state_directory": cls.path("state"), "http_address": "127.0.0.1:0",
            "http_address_file": address_file, "log_format": "json"})
        cls.coordinator = Process("coordinator", [program("medley-coordinator"), "--config", config], cls.path("log"))
        cls.addClassCleanup(cls.coordinator.kill_group)
        wait_for(lambda: "the coordinator serves:\n" + cls.coordinator.log(), lambda: os.path.exists(address_file))
        with open(address_file) as file:
            cls.address = file.read().strip()
        write_file(cls.path("train.txt"), "words and words\n" * 100)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.directory, name)

    def ask(self, method, path, body=None, **headers):
        """(status, content type, text)"""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        self.addCleanup(connection.close)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()

    def post(self, method, request):
        return self.ask("POST", "/api/v1/" + method, json.dumps(request), Content_Type="application/json")

    def spec(self, name):
        return {"name": name, "model": {"gpt2": {"layers": 1, "hidden": 16, "heads": 2, "vocabulary": 256}},
                "data": {"train": self.path("train.txt"), "format": "text"}, "batch": {"sequences": 2, "sequence_length": 8},
                "steps": 2, "optimizer": {"learning_rate": 1e-3}, "scheduling": {"hold": True}}

    def error(self, answer, status, code):
        self.assertEqual((answer[0], answer[1]), (status, "application/json"), answer)
        error = json.loads(answer[2])["error"]
        self.assertEqual(error["code"], code)
        return error["message"]

    def test_a_job_is_submitted_read_listed_watched_and_cancelled(self):
        status, kind, text = self.post("SubmitJob", {"spec": self.spec("web")})
        self.assertEqual((status, kind), (200, "application/json"), text)
        job = json.loads(text)["job"]["id"]
        by_query = self.ask("GET", "/api/v1/GetJob?job_id=" + job)
        self.assertEqual(by_query[0], 200, by_query)
        self.assertEqual(json.loads(by_query[2])["id"], job)
        self.assertEqual(json.loads(self.post("GetJob", {"job_id": job})[2])["id"], job)
        status, kind, text = self.ask("GET", "/api/v1/ListJobs?limit=10")
        self.assertEqual((status, kind), (200, "application/x-ndjson"))
        self.assertIn(job, [one["id"] for line in text.splitlines() for one in json.loads(line)["jobs"]])
        self.assertEqual(json.loads(self.post("CancelJob", {"job_id": job})[2])["state"], "cancelled")
        status, kind, text = self.ask("GET", "/api/v1/WatchJob?job_id=" + job)  # it has ended, and so does the stream
        self.assertEqual((status, kind), (200, "application/x-ndjson"))
        self.assertEqual(json.loads(text.splitlines()[-1])["job"]["state"], "cancelled")
        audit = json.loads(self.ask("GET", "/api/v1/ListAudit")[2].splitlines()[-1])["records"]
        self.assertIn(("CancelJob", job, "OK"), [(one["method"], one["subject"], one["result"]) for one in audit])

    def test_a_request_may_be_yaml_as_specs_are(self):
        text = "spec:\n  " + json.dumps(self.spec("yaml")) + "\n"
        status, _, answer = self.ask("POST", "/api/v1/SubmitJob", text, Content_Type="application/yaml")
        self.assertEqual(status, 200, answer)

    def test_what_is_wrong_is_said_with_its_code(self):
        self.assertEqual(self.error(self.ask("GET", "/api/v1/GetJob?job_id=none-1"), 404, "NOT_FOUND"), 'no job "none-1"')
        self.assertEqual(self.error(self.ask("GET", "/api/v1/WatchJob?job_id=none-1"), 404, "NOT_FOUND"), 'no job "none-1"')
        self.assertIn("job_id", self.error(self.post("GetJob", {}), 400, "INVALID_ARGUMENT"))
        self.assertIn("?jobid", self.error(self.ask("GET", "/api/v1/GetJob?jobid=a"), 400, "INVALID_ARGUMENT"))
        self.assertIn("jobid", self.error(self.post("GetJob", {"jobid": "a"}), 400, "INVALID_ARGUMENT"))
        self.assertIn("GetJob", self.error(self.ask("GET", "/api/v1/GetJop"), 501, "UNIMPLEMENTED"))
        self.assertIn("POST", self.error(self.ask("GET", "/api/v1/CancelJob?job_id=a"), 405, "INVALID_ARGUMENT"))
        self.assertIn("learning_rat", self.error(self.post("SubmitJob", {"spec": {"optimizer": {"learning_rat": 1}}}), 400,
                                                 "INVALID_ARGUMENT"))
        self.error(self.ask("POST", "/api/v1/GetJob", "{" * 10000, Content_Type="application/json"), 400, "INVALID_ARGUMENT")
        self.assertEqual(self.ask("GET", "/nothing")[0], 404)
        self.assertEqual(self.ask("GET", "/../coordinator.yaml")[0], 404)
        self.assertIsNone(self.coordinator.child.poll())

    def test_a_page_of_another_site_gets_nothing_done(self):
        self.assertEqual(self.ask("POST", "/api/v1/CancelJob", "{}", Content_Type="text/plain")[0], 403)
        self.assertEqual(self.ask("POST", "/api/v1/CancelJob", "{}", Content_Type="application/json", Origin="https://elsewhere")[0], 403)
        self.assertEqual(self.ask("GET", "/api/v1/ListNodes", Host="elsewhere")[0], 403)

    def test_who_asks_is_told_what_they_may(self):
        about = json.loads(self.ask("GET", "/api/v1")[2])
        self.assertEqual((about["identity"], about["role"]), ("", "admin"))
        self.assertTrue(about["methods"]["SubmitJob"])
        self.assertEqual(self.ask("GET", "/healthz")[0], 200)

    def test_the_page_and_the_figures_are_there(self):
        status, kind, text = self.ask("GET", "/")
        self.assertEqual((status, kind), (200, "text/html; charset=utf-8"))
        self.assertIn("<!doctype html>", text.lower())
        status, kind, text = self.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(text.endswith("# EOF\n"))
        self.assertIn('medley_jobs{state="queued"} ', text)

    def test_the_log_is_json(self):
        for line in self.coordinator.log().splitlines():
            fields = json.loads(line)
            self.assertLessEqual({"from", "level", "message", "time"}, set(fields))
            self.assertLessEqual(set(fields), {"from", "level", "message", "time", "job", "attempt", "rank", "node", "request"})

    def test_a_request_has_its_id_in_the_answer_the_audit_and_the_log(self):
        def ask(**headers):
            connection = http.client.HTTPConnection(self.address, timeout=60)
            self.addCleanup(connection.close)
            connection.request("POST", "/api/v1/CancelJob", '{"job_id": "none-such"}', {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            answer.read()
            return answer.getheader("X-Request-Id")

        self.assertEqual(ask(**{"X-Request-Id": "ours.1"}), "ours.1")
        made = ask(**{"X-Request-Id": "two words"})
        self.assertRegex(made, "^[0-9a-f]{16}$")
        self.assertRegex(self.ask("GET", "/api/v1/nonsense") and ask(), "^[0-9a-f]{16}$")
        records = json.loads(self.post("ListAudit", {})[2].splitlines()[0])["records"]
        self.assertLessEqual({"ours.1", made}, {record.get("request_id") for record in records})
        logged = [json.loads(line) for line in self.coordinator.log().splitlines()]
        line = next(line for line in logged if line.get("request") == "ours.1")
        self.assertEqual((line["job"], line["level"]), ("none-such", "info"))
        self.assertIn("CancelJob of none-such", line["message"])


if __name__ == "__main__":
    unittest.main()
