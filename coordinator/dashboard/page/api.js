// The coordinator's methods over HTTP.

// What the coordinator answered instead of a result.
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// It could not be asked, or says that it starts or stops.
export class Unreachable extends Error {}

const PATH = "api/v1";

function raise(status, error) {
  const code = (error && error.code) || `HTTP ${status}`, message = (error && error.message) || `the coordinator answered with ${code}`;
  if (status === 502 || status === 503 || code === "UNAVAILABLE") throw new Unreachable(message);
  throw new Refusal(status, code, message);
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (options.signal && options.signal.aborted) throw error;
    throw new Unreachable("the coordinator cannot be reached");
  }
  if (response.ok) return response;
  let said = null;
  try {
    said = (await response.json()).error;
  } catch {
    // Not from the coordinator: something between it and this page.
  }
  return raise(response.status, said);
}

// A connection that breaks within an answer.
async function reading(work, signal) {
  try {
    return await work();
  } catch (error) {
    if ((signal && signal.aborted) || error instanceof Refusal || error instanceof Unreachable) throw error;
    throw new Unreachable("the connection to the coordinator broke");
  }
}

function queryOf(request) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== null && one !== "" && one !== 0 && one !== false) query.append(name, one);
  return query.size > 0 ? `?${query}` : "";
}

// Who asks, and which methods that may use.
export async function access(signal) {
  const response = await ask(PATH, { signal });
  return reading(() => response.json(), signal);
}

// Of methods that change nothing.
export async function get(method, request = {}, signal = undefined) {
  const response = await ask(`${PATH}/${method}${queryOf(request)}`, { signal });
  return reading(() => response.json(), signal);
}

const send = (method, type, body, signal) =>
  ask(`${PATH}/${method}`, { method: "POST", headers: { "Content-Type": type }, body, signal });
async function post(method, type, body, signal) {
  const response = await send(method, type, body, signal);
  return reading(() => response.json(), signal);
}
export const call = (method, request, signal = undefined) => post(method, "application/json", JSON.stringify(request), signal);
export const callYaml = (method, yaml, signal = undefined) => post(method, "application/yaml", yaml, signal);

// The messages of a streaming method, as they come. `verb` is POST for one that changes something.
export async function* stream(method, request = {}, signal = undefined, verb = "GET") {
  const response = verb === "GET" ? await ask(`${PATH}/${method}${queryOf(request)}`, { signal })
    : await send(method, "application/json", JSON.stringify(request), signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let rest = ""; ;) {
      const { done, value } = await reading(() => reader.read(), signal);
      const lines = (rest + (done ? "" : value)).split("\n");
      rest = lines.pop();
      for (const line of lines.filter((text) => text.trim() !== "")) {
        const message = JSON.parse(line);
        if (message.error && message.error.code) raise(200, message.error);
        yield message;
      }
      if (!done) continue;
      if (rest.trim() !== "") throw new Unreachable("the connection to the coordinator broke");
      return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// The lists of a streaming method's messages, each concatenated.
export async function collect(method, request, lists, signal = undefined, verb = "GET") {
  const result = Object.fromEntries(lists.map((name) => [name, []]));
  for await (const part of stream(method, request, signal, verb))
    for (const name of lists) for (const one of part[name] || []) result[name].push(one);
  return result;
}
