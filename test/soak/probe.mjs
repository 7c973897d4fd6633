// Loaded into the process that is measured: it answers each message with the heap after a collection, and the event loop's delay since the one before.
import { monitorEventLoopDelay } from 'node:perf_hooks';

const delay = monitorEventLoopDelay({ resolution: 10 });
delay.enable();

process.on('message', () => {
  const delayP99Ms = delay.percentile(99) / 1e6;
  delay.disable();
  globalThis.gc();
  globalThis.gc();
  process.send({ heapBytes: process.memoryUsage().heapUsed, delayP99Ms });
  setTimeout(() => {
    delay.reset();
    delay.enable();
  }, 50).unref();
});
process.channel.unref();
