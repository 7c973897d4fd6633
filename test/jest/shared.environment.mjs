import { TestEnvironment } from 'jest-environment-node';

/**
 * Where Jest's runner keeps what is told of each event. What a file has added would tell the main
 * process of every test of all later files, again and again.
 */
const EVENT_HANDLERS = Symbol.for('EVENT_HANDLERS');
/** Where `jest.setTimeout` puts the time of a file, which is not that of the next one. */
const TEST_TIMEOUT = Symbol.for('TEST_TIMEOUT_SYMBOL');

let shared;

/**
 * One realm for all spec files of a worker, in which `shared.runtime.mjs` keeps what they have
 * loaded. What a file leaves behind ends with it.
 */
export default class SharedEnvironment extends TestEnvironment {
  constructor(config, context) {
    if (shared) return shared;
    super(config, context);
    const { watch, watchAll, collectCoverage } = config.globalConfig;
    // sources that change are loaded anew, and each file has figures of its own
    this.isShared = !watch && !watchAll && !collectCoverage;
    if (!this.isShared) return;
    shared = this;
    // Nothing is left to wait for: the main process gives a worker half a second to end, and to
    // take its heap apart first may take longer.
    process.once('beforeExit', () => process.exit());
    this.timers = new Set();
    this.track('setTimeout');
    this.track('setInterval');
    this.forget('clearTimeout');
    this.forget('clearInterval');
    this.environmentVariables = { ...this.global.process.env };
  }

  async teardown() {
    if (!this.isShared) return super.teardown();
    this.fakeTimersModern.useRealTimers();
    for (const timer of this.timers) clearTimeout(timer);
    this.timers.clear();
    delete this.global[EVENT_HANDLERS];
    delete this.global[TEST_TIMEOUT];
    const { env } = this.global.process;
    for (const name of Object.keys(env)) delete env[name];
    Object.assign(env, this.environmentVariables);
  }

  /** A call that a file has abandoned must not time out, and log, in the next one. */
  track(name) {
    const begin = this.global[name];
    const { timers } = this;
    const tracked = (...given) => {
      const timer = begin(...given);
      timers.add(timer);
      return timer;
    };
    this.global[name] = Object.defineProperties(tracked, Object.getOwnPropertyDescriptors(begin));
  }

  /** A timer that is cleared is kept no longer, so that a spec may measure the heap. */
  forget(name) {
    const end = this.global[name];
    const { timers } = this;
    this.global[name] = (timer) => {
      timers.delete(timer);
      end(timer);
    };
  }
}
