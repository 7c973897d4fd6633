import type { RunFacts, RunView } from './run-view.js';
import type { Slot } from './slot.js';

/** The view that the plugins of one run share, and the holder of their values. */
export class RunOfPlugins implements RunView {
  constructor(
    readonly facts: RunFacts,
    /** The run around a sub-run. */
    private readonly around: RunOfPlugins | undefined,
  ) {}

  get runId(): string {
    return this.facts.context.runId;
  }

  get tenant(): string {
    return this.facts.context.tenant;
  }

  get signal(): AbortSignal {
    return this.facts.signal;
  }

  get limits(): RunFacts['limits'] {
    return this.facts.limits;
  }

  get<Value>(slot: Slot<Value>): Value {
    return slot.read(this.holderOf(slot));
  }

  set<Value>(slot: Slot<Value>, next: (now: Value) => Value): void {
    const holder = this.holderOf(slot);
    slot.write(holder, next(slot.read(holder)));
  }

  private holderOf(slot: Pick<Slot<never>, 'inherit'>): RunView {
    return slot.inherit === 'share' && this.around ? this.around.holderOf(slot) : this;
  }
}
