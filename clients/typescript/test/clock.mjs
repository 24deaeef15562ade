// The client's timers under the test's control: no test waits for time, and none depends on how busy the machine is.

const set = globalThis.setTimeout;
const clear = globalThis.clearTimeout;
let now = 0;
const timers = new Set();

/** Takes over the timers that are set by the client; those of Node itself are left alone. */
export function install() {
  globalThis.setTimeout = (run, ms, ...given) => {
    if (!new Error().stack.split("\n").slice(2, 4).join().includes("/dist/hedge.js")) return set(run, ms, ...given);
    const timer = { run, due: now + ms };
    timers.add(timer);
    return timer;
  };
  globalThis.clearTimeout = (timer) => (timers.has(timer) ? timers.delete(timer) : clear(timer));
}

/** Lets `ms` pass for the client: its timers run in the order in which they are due. */
export function advance(ms) {
  const end = now + ms;
  for (;;) {
    const [next] = [...timers].filter((timer) => timer.due <= end).sort((a, b) => a.due - b.due);
    if (next === undefined) break;
    now = next.due;
    timers.delete(next);
    next.run();
  }
  now = end;
}

export const pending = () => timers.size;
