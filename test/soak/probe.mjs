// Loaded into the process that is measured: it answers each message with the heap after a
// collection, and the event loop's delay since the one before.
import { createHistogram, monitorEventLoopDelay } from 'node:perf_hooks';

const TURN_MS = 10;
const delay = monitorEventLoopDelay({ resolution: TURN_MS });
delay.enable();

// What this thread itself does between two turns of a timer: on a busy machine the delay is mostly
// the time in which other processes have the CPU.
const work = createHistogram();
let before = process.threadCpuUsage();
setInterval(() => {
  const now = process.threadCpuUsage();
  work.record(Math.max(1, now.user - before.user + now.system - before.system));
  before = now;
}, TURN_MS).unref();

// What has gone wrong unheard: a process that does not listen would end of it, and hide how often
// it happens.
const unhandled = [];
process.on('unhandledRejection', (reason) => unhandled.push(String(reason?.stack ?? reason)));

/**
 * The timers, sockets and requests that keep a process alive, and the listeners of the process
 * itself, by their kinds.
 */
function heldNow() {
  const held = {};
  for (const kind of process.getActiveResourcesInfo()) held[kind] = (held[kind] ?? 0) + 1;
  for (const event of process.eventNames())
    held[`listener of ${String(event)}`] = process.listenerCount(event);
  return held;
}

process.on('message', (wanted) => {
  const { user, system } = process.cpuUsage();
  const cpuMs = (user + system) / 1e3;
  if (wanted === 'cpu') return process.send({ cpuMs });
  if (wanted === 'held') return process.send({ held: heldNow(), unhandled });
  const delayP99Ms = delay.percentile(99) / 1e6;
  const workP99Ms = work.percentile(99) / 1e3;
  const longestWorkMs = work.max / 1e3;
  delay.disable();
  globalThis.gc();
  globalThis.gc();
  process.send({ heapBytes: process.memoryUsage().heapUsed, delayP99Ms, workP99Ms, longestWorkMs });
  setTimeout(() => {
    delay.reset();
    delay.enable();
    work.reset();
    before = process.threadCpuUsage();
  }, 50).unref();
});
process.channel.unref();
