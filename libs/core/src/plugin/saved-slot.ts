import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { JsonValue } from '@toolloop/protocol';
import type { PluginValue } from '../contracts/plugin-value.js';
import { isThenable } from '../contracts/thenable.js';
import type { RunView } from './run-view.js';
import { Slot, type SlotInheritance } from './slot.js';

/** A slot's value as it is saved, and the version of its form. */
export interface SavedSlot {
  readonly version: number;
  readonly value: JsonValue;
}

/** The declaration of a slot whose value is saved with its run. */
export interface SlotDeclaration<Value extends JsonValue> {
  /** `plugin/slot`. */
  readonly name: string;
  /** From 1. Raise it if the meaning of the value changes, and add a step to `upgrade`. */
  readonly version: number;
  /** The form of the value, checked when a run is resumed. It is asked without waiting. */
  readonly schema: StandardSchemaV1<unknown, Value>;
  /** Returns the value of a run that has none yet. */
  readonly initial: () => Value;
  readonly inherit: SlotInheritance;
  /** Makes of a value of each earlier version one of the next version. */
  readonly upgrade?: Readonly<Record<number, (saved: JsonValue) => JsonValue>>;
  /**
   * Says what becomes of a run whose value cannot be read: it is not resumed, or continues with the
   * initial value. @default 'refuse'
   */
  readonly ifUnreadable?: 'refuse' | 'initial';
}

/** The values of a run's slots as they are saved, by the names of the slots. */
export type SavedSlots = Readonly<Record<string, SavedSlot>>;

/** A slot whose value a run keeps while it waits, and takes along to another process. */
export class KeptSlot<Value extends JsonValue> extends Slot<Value> {
  constructor(private readonly kept: SlotDeclaration<Value>) {
    super({ name: kept.name, inherit: kept.inherit, make: kept.initial });
  }

  /**
   * Makes the value with which the slot begins in the run of a request.
   *
   * @example
   * await loop.run({ prompt, actor, tenant, plugins: [URGENT.of(true)] });
   */
  of(value: Value): PluginValue {
    return { slot: this.name, value };
  }

  /** The problems of its declaration, each as a sentence. */
  get problems(): readonly string[] {
    const { version } = this.kept;
    if (!Number.isInteger(version) || version < 1)
      return [`The slot "${this.name}" has the version ${version}.`];
    const problem = this.problemWithFirst();
    return problem === undefined ? [] : [`The slot "${this.name}" begins wrongly: ${problem}.`];
  }

  /** Returns why a value that a request gives is none; undefined if it is one. */
  problemWithGiven(value: JsonValue): string | undefined {
    return this.problemWith({ version: this.kept.version, value });
  }

  /** @throws {TypeError} for a value that no later process could read */
  override write(holder: RunView, value: Value): void {
    const result = this.validated(value);
    if ('wrong' in result) throw new TypeError(`The value is wrong: ${result.wrong}.`);
    super.write(holder, value);
  }

  /** Begins with a value that a request has given, unless the run has one. */
  begin(holder: RunView, value: JsonValue): void {
    if (!this.cellOf(holder)) this.restore(holder, { version: this.kept.version, value });
  }

  /** Returns the value of a run as it is saved; undefined if it has none. */
  save(holder: RunView): SavedSlot | undefined {
    const cell = this.cellOf(holder);
    return cell && { version: this.kept.version, value: cell.value };
  }

  /** Returns why a saved value cannot be read; undefined if it can. */
  problemWith(saved: SavedSlot): string | undefined {
    const reading = this.reading(saved);
    return 'unreadable' in reading && this.kept.ifUnreadable !== 'initial'
      ? reading.unreadable
      : undefined;
  }

  /** Takes over a saved value; one that cannot be read is as good as none. */
  restore(holder: RunView, saved: SavedSlot): void {
    const reading = this.reading(saved);
    if ('value' in reading) super.write(holder, reading.value);
  }

  private reading(saved: SavedSlot): { readonly value: Value } | { readonly unreadable: string } {
    const { version, name } = this.kept;
    if (saved.version > version)
      return { unreadable: `"${name}" is of version ${saved.version}, and this is ${version}` };
    const upgraded = this.upgraded(saved);
    if (upgraded === undefined)
      return { unreadable: `"${name}" has no step from its version ${saved.version}` };
    const result = this.validated(upgraded);
    return 'wrong' in result ? { unreadable: result.wrong } : result;
  }

  /** Returns the value as its schema reads it. A problem does not tell the value. */
  private validated(value: unknown): { readonly value: Value } | { readonly wrong: string } {
    const { schema, name } = this.kept;
    const result = schema['~standard'].validate(value);
    if (isThenable(result)) return { wrong: `the schema of "${name}" is not synchronous` };
    return result.issues ? { wrong: `"${name}" is not what it must be` } : { value: result.value };
  }

  private problemWithFirst(): string | undefined {
    try {
      const result = this.validated(this.kept.initial());
      return 'wrong' in result ? result.wrong : undefined;
    } catch (error) {
      return `it cannot be made: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  private upgraded({ version, value }: SavedSlot): JsonValue | undefined {
    let latest: JsonValue | undefined = value;
    for (let from = version; from < this.kept.version && latest !== undefined; from += 1)
      latest = this.kept.upgrade?.[from]?.(latest);
    return latest;
  }
}

/**
 * Declares a value that is saved with its run.
 *
 * @example
 * const LATE = slot({
 *   name: 'acme.hours/late',
 *   version: 1,
 *   schema: z.array(z.string()),
 *   initial: () => [],
 *   inherit: 'share',
 * });
 */
export function slot<Value extends JsonValue>(
  declaration: SlotDeclaration<Value>,
): KeptSlot<Value> {
  return new KeptSlot(declaration);
}
