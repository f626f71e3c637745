// A job as it goes on, over connections that break and coordinators that come back.
import { get, Refusal, stream, Unreachable } from "./api.js";
import { markLost, onConnection, isLost, pause, whenBack } from "./connection.js";
import { number } from "./format.js";
import { hasEnded } from "./job_facts.js";
import { StepSeries } from "./step_series.js";

const LOOK_AT_ENDED_SECONDS = 3; // somebody may resume it

export class JobWatch {
  // onChange() after every change, at most once a frame; onRefusal(error) where the job cannot be watched.
  constructor(id, signal, onChange, onRefusal) {
    Object.assign(this, { id, signal, onRefusal, job: null, series: new StepSeries(), drawing: false });
    this.changed = () => {
      if (this.drawing) return;
      this.drawing = true;
      setTimeout(() => {
        this.drawing = false;
        if (!signal.aborted) onChange();
      }, 100); // a job of short steps changes more often than anybody can read
    };
    this.go();
  }

  async go() {
    while (!this.signal.aborted) {
      try {
        await this.follow(this.series.last());
        await this.awaitLife();
      } catch (error) {
        if (this.signal.aborted) return;
        if (error instanceof Unreachable) markLost();
        else if (!(error instanceof Again)) this.onRefusal(error);
        if (error instanceof Refusal && error.status === 404) return;
        await pause(error instanceof Again ? 0 : 0.5, this.signal);
        await whenBack(this.signal);
      }
    }
  }

  // Until the job has ended. A connection over which nothing comes is given up when the coordinator is found to be away.
  async follow(afterStep) {
    const ending = new AbortController(), until = AbortSignal.any([this.signal, ending.signal]);
    onConnection(() => { if (isLost()) ending.abort(); }, until);
    try {
      let first = true;
      for await (const update of stream("WatchJob", { job_id: this.id, after_step: afterStep }, until)) {
        // Attempts that nobody here has heard of may have made steps anew that were told before.
        if (first && afterStep > 0 && this.job && number(this.job.attempt) !== number(update.job.attempt)) this.beginAnew();
        first = false;
        this.take(update, afterStep);
      }
    } catch (error) {
      if (ending.signal.aborted && !this.signal.aborted) throw new Unreachable("the coordinator is away");
      throw error;
    } finally {
      ending.abort();
    }
  }

  beginAnew() {
    this.series.clear();
    this.job = null;
    throw new Again();
  }

  take(update) {
    this.job = update.job;
    for (const step of update.steps || []) if (!this.series.add(step)) this.beginAnew();
    for (const validation of update.validations || []) this.series.addValidation(validation);
    this.changed();
  }

  async awaitLife() {
    while (!this.signal.aborted && this.job && hasEnded(this.job)) {
      await pause(LOOK_AT_ENDED_SECONDS, this.signal);
      if (document.hidden) continue;
      this.job = await get("GetJob", { job_id: this.id }, this.signal);
    }
    this.changed();
  }

  // What an action answered.
  show(job) {
    if (this.job && hasEnded(this.job) && job.id === this.id) this.job = job;
    this.changed();
  }
}

class Again extends Error {}
