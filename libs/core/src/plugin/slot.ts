import type { RunView } from './run-view.js';

/**
 * One value that a plugin keeps for each run. A slot is a capability: only the module that has it
 * reads or writes the value.
 */
export class Slot<Value> {
  private readonly cells = new WeakMap<RunView, { readonly value: Value }>();

  constructor(private readonly declaration: MemoryDeclaration<Value>) {}

  get name(): string {
    return this.declaration.name;
  }

  get inherit(): SlotInheritance {
    return this.declaration.inherit;
  }

  /** Returns the value of the run that holds it. */
  read(holder: RunView): Value {
    const cell = this.cells.get(holder) ?? { value: this.declaration.make(holder) };
    this.cells.set(holder, cell);
    return cell.value;
  }

  /** Returns the cell of the run that holds it; undefined until it has a value. */
  protected cellOf(holder: RunView): { readonly value: Value } | undefined {
    return this.cells.get(holder);
  }

  write(holder: RunView, value: Value): void {
    this.cells.set(holder, { value });
  }
}

/**
 * The runs that have a value in common: none, a run with its sub-runs, or the calls of a session.
 */
export type SlotInheritance = 'fresh' | 'share' | 'session';

/** The declaration of a slot whose value lasts as long as its process. */
export interface MemoryDeclaration<Value> {
  /** `plugin/slot`. */
  readonly name: string;
  readonly inherit: SlotInheritance;
  /** Makes the value of a run when it is first asked for. */
  readonly make: (run: RunView) => Value;
}

/** A slot, whatever its value is. */
export type AnySlot = Pick<Slot<unknown>, 'name' | 'inherit'>;

/**
 * Declares a value that is made anew in each process that continues a run.
 *
 * @example
 * const STARTED = memory({
 *   name: 'acme.log/started',
 *   inherit: 'share',
 *   make: () => new Set<string>(),
 * });
 */
export function memory<Value>(declaration: MemoryDeclaration<Value>): Slot<Value> {
  return new Slot(declaration);
}
