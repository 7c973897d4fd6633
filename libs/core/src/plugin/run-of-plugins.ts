import type { PluginValue } from '../contracts/plugin-value.js';
import type { RunFacts, RunView } from './run-view.js';
import { KeptSlot, type SavedSlots } from './saved-slot.js';
import type { AnySlot, Slot } from './slot.js';

/** The view that the plugins of one run share, and the holder of their values. */
export class RunOfPlugins implements RunView {
  /** The values of slots that no plugin of this process has: they are written back. */
  private foreign: SavedSlots = {};

  constructor(
    readonly facts: RunFacts,
    /** The slots of the plugins of the application. */
    private readonly slots: readonly AnySlot[],
    readonly around?: RunOfPlugins,
    /** The session of a call. */
    private readonly session?: RunOfPlugins,
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
    this.assertListed(slot);
    return slot.read(this.holderOf(slot));
  }

  set<Value>(slot: Slot<Value>, next: (now: Value) => Value): void {
    this.assertListed(slot);
    const holder = this.holderOf(slot);
    slot.write(holder, next(slot.read(holder)));
  }

  /**
   * Returns the values of slots as they are saved, and those of plugins that this process does not
   * have. A value that is shared is saved by the run that holds it.
   */
  save(): SavedSlots {
    const saved = this.slots.flatMap((slot) => {
      const value = slot instanceof KeptSlot ? slot.save(this) : undefined;
      return value ? [[slot.name, value] as const] : [];
    });
    return { ...this.foreign, ...Object.fromEntries(saved) };
  }

  /** Takes over the values of a run that was saved. */
  restore(saved: SavedSlots): void {
    const known = new Map(this.slots.map((slot) => [slot.name, slot]));
    for (const [name, value] of Object.entries(saved)) {
      const slot = known.get(name);
      if (slot instanceof KeptSlot) slot.restore(this, value);
      else this.foreign = { ...this.foreign, [name]: value };
    }
  }

  /** Begins slots of this run with the values that its request has given. */
  begin(values: readonly PluginValue[]): void {
    for (const { slot: name, value } of values) {
      const slot = this.slots.find((one) => one.name === name);
      if (slot instanceof KeptSlot && this.holderOf(slot) === this) slot.begin(this, value);
    }
  }

  /** @throws {TypeError} for a slot whose value would be lost */
  private assertListed<Value>(slot: Slot<Value>): void {
    if (slot instanceof KeptSlot && !this.slots.includes(slot))
      throw new TypeError(
        `No plugin lists the slot "${slot.name}", so it would not be saved. Add it to the slots of its plugin: @ToolLoopPlugin({ slots: [...] }).`,
      );
  }

  private holderOf(slot: Pick<Slot<never>, 'inherit'>): RunView {
    const holder = { fresh: undefined, share: this.around, session: this.session }[slot.inherit];
    return holder ? holder.holderOf(slot) : this;
  }
}
