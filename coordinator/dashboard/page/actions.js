// What may be done with a job: what its state allows, and the role of who looks.
import { call } from "./api.js";
import { may } from "./connection.js";
import { ask, say } from "./dialog.js";
import { element } from "./dom.js";
import { secondsText, number } from "./format.js";
import { hasEnded, isWaiting, stateOf, stateText } from "./job_facts.js";

function actionsOf(id, watch) {
  const saves = (job) => Boolean(((job.spec || {}).checkpoint || {}).directory);
  const act = async (method, request, said) => {
    const job = await call(method, { job_id: id, ...request });
    watch.show(job);
    return said;
  };
  return [
    { name: "Hold", method: "HoldJob", when: (job) => isWaiting(job) && !job.held,
      run: () => ask({ title: `Hold ${id}?`, text: "It is kept from being started until it is released.", verb: "Hold",
        work: () => act("HoldJob", { hold: true }, `${id} is held`) }) },
    { name: "Release", method: "HoldJob", when: (job) => isWaiting(job) && job.held,
      run: () => ask({ title: `Release ${id}?`, text: "It starts as soon as there are devices for it.", verb: "Release",
        work: () => act("HoldJob", { hold: false }, `${id} is released`) }) },
    { name: "Replan", method: "ReplanJob", when: (job) => stateOf(job) === "running",
      run: () => ask({ title: `Plan ${id} anew?`, verb: "Replan", options: { force: "also if the new plan is not faster" },
        text: "If a plan for its devices and those that are free now is faster, it saves a checkpoint and goes on under that.",
        work: async ({ force }) => {
          const answer = await call("ReplanJob", { job_id: id, force });
          const figures = [answer.step_seconds_now, answer.step_seconds_then].map(number).filter((seconds) => seconds > 0).map(secondsText);
          return answer.decision || `${answer.replans ? "it is planned anew" : "it stays as it is"}: ${figures.join(" now, then ")}`;
        } }) },
    { name: "Resume", method: "ResumeJob", when: (job) => ["failed", "cancelled"].includes(stateOf(job)),
      run: (job) => ask({ title: `Resume ${id}?`, verb: "Resume", text: job.checkpoint_path
        ? `It goes on from step ${number(job.checkpoint_step)}.` : "It has no checkpoint and begins from the start.",
        work: () => act("ResumeJob", {}, `${id} goes on`) }) },
    { name: "Cancel", method: "CancelJob", danger: true, when: (job) => !hasEnded(job),
      run: (job) => ask({ title: `Cancel ${id}?`, verb: "Cancel the job", danger: true,
        text: saves(job) || isWaiting(job) ? "It can be resumed later."
        : "It writes no checkpoints: what it has learnt is lost.",
        options: saves(job) && stateOf(job) === "running" ? { after_checkpoint: "after its current step and a checkpoint" } : {},
        work: (choices) => act("CancelJob", choices, `${id} is being cancelled`) }) },
    { name: "Delete", method: "DeleteJob", danger: true, when: hasEnded,
      run: () => ask({ title: `Delete ${id}?`, verb: "Delete for good", danger: true,
        text: "Its metrics, logs and traces are forgotten. Its checkpoints stay.",
        work: async () => {
          await call("DeleteJob", { job_id: id });
          location.hash = "#/jobs";
          return `${id} is deleted`;
        } }) },
  ];
}

export function jobActions(id, watch) {
  const bar = element("div", { class: "actions", role: "group", "aria-label": "Actions" });
  const actions = actionsOf(id, watch);
  let shown = "", job = null;
  const buttons = new Map(actions.map((action) => [action, element("button", { type: "button", class: action.danger ? "danger" : null,
    click: () => (action.when(job) ? action.run(job) : say(`${id} is ${stateText(job)} now`)) }, action.name)]));
  return { element: bar, update(now) {
    job = now;
    const possible = actions.filter((action) => may(action.method) && action.when(job)),
      names = possible.map((action) => action.name).join();
    if (names === shown) return;
    shown = names;
    bar.replaceChildren(...possible.map((action) => buttons.get(action)));
  } };
}
