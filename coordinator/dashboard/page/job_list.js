// The jobs that are known. All are asked for now and then, the newest and those that are active every time.
import { collect, get, Refusal } from "./api.js";
import { number } from "./format.js";
import { hasEnded } from "./job_facts.js";

const NEWEST = 50;
const ALL = 10000;
const MOST_BY_THEMSELVES = 8; // active jobs that are not among the newest
const ALL_EVERY_SECONDS = 60;

export class JobList {
  constructor() {
    this.byId = new Map();
    this.known = false; // the first answer has come
    this.allAt = -Infinity; // when all were asked for, of performance.now()
  }

  jobs() {
    return [...this.byId.values()].sort((a, b) => number(b.submitted_at_seconds) - number(a.submitted_at_seconds));
  }

  // Yields whenever there is something new to show.
  async* refresh(signal) {
    const newest = (await collect("ListJobs", { limit: NEWEST }, ["jobs"], signal)).jobs;
    this.takeNewest(newest);
    yield true;
    if (newest.length < NEWEST) return;
    if (performance.now() - this.allAt > 1000 * ALL_EVERY_SECONDS) {
      const all = (await collect("ListJobs", { limit: ALL }, ["jobs"], signal)).jobs;
      this.byId = new Map(all.map((job) => [job.id, job]));
      this.allAt = performance.now();
    } else {
      await this.refreshActive(new Set(newest.map((job) => job.id)), signal);
    }
    yield true;
  }

  // Of those that are newer than the oldest of `newest`, what is not there was deleted.
  takeNewest(newest) {
    const since = newest.length < NEWEST ? -Infinity : number(newest[newest.length - 1].submitted_at_seconds);
    const ids = new Set(newest.map((job) => job.id));
    for (const [id, job] of this.byId)
      if (number(job.submitted_at_seconds) > since && !ids.has(id)) this.byId.delete(id);
    for (const job of newest) this.byId.set(job.id, job);
    this.known = true;
  }

  async refreshActive(besides, signal) {
    const active = this.jobs().filter((job) => !hasEnded(job) && !besides.has(job.id)).slice(0, MOST_BY_THEMSELVES);
    await Promise.all(active.map(async ({ id }) => {
      try {
        this.byId.set(id, await get("GetJob", { job_id: id }, signal));
      } catch (error) {
        if (!(error instanceof Refusal) || error.status !== 404) throw error;
        this.byId.delete(id);
      }
    }));
  }
}
