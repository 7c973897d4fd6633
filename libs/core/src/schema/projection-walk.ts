import type { Audience, JsonValue } from '@toolloop/protocol';
import type { ProjectionObserver } from '../contracts/result-projector.js';

/**
 * The path from a result's root to the value being projected, so that every refusal can name the
 * place, and so that cycles, endless nesting and endless iterables end in a `ProjectionError`
 * instead of a full stack or heap. One per projection.
 */
export class ProjectionWalk {
  private readonly within: object[] = [];
  private readonly keys: ProjectionKey[] = [];
  /** The entered objects whose keys are data. */
  private readonly open = new WeakSet<object>();
  private values = 0;
  /** True once the model and the ui see some object of it otherwise, or that cannot be told. */
  isForOneReader = false;

  constructor(
    private readonly subject: string,
    readonly audience: Audience,
    private readonly observer?: ProjectionObserver,
  ) {}

  /** Reports that the projection of an instance is complete. */
  show(source: object, json: Record<string, JsonValue>): void {
    this.observer?.(source, json);
  }

  enter(value: object, key: ProjectionKey): void {
    this.count(key);
    if (this.within.length >= MAX_DEPTH) {
      throw this.refuse(
        key,
        `lies more than ${MAX_DEPTH} levels deep`,
        'Return something flatter.',
      );
    }
    if (this.within.includes(value)) {
      throw this.refuse(
        key,
        'is an object that it is itself a part of',
        'Leave one direction without @Expose(), or expose an id instead.',
      );
    }
    this.within.push(value);
    this.keys.push(key);
  }

  /** Enters an object without declared properties. */
  enterOpen(value: object, key: ProjectionKey): void {
    this.enter(value, key);
    this.open.add(value);
  }

  leave(): void {
    this.within.pop();
    this.keys.pop();
  }

  /** Called for every object and every item of a list. */
  count(key: ProjectionKey): void {
    this.values += 1;
    if (this.values > MAX_VALUES)
      throw this.refuse(
        key,
        `is past the ${MAX_VALUES} values a result may hold`,
        'Return a page of them.',
      );
  }

  /** Reads a property of the object entered last; a getter may throw. */
  read(source: Readonly<Record<string, unknown>>, property: string): unknown {
    try {
      return source[property];
    } catch (cause) {
      throw this.refuse(property, 'threw when it was read', 'See the cause.', cause);
    }
  }

  /** Runs code of the application. */
  attempt<Value>(key: ProjectionKey, what: string, act: () => Value): Value {
    try {
      return act();
    } catch (cause) {
      if (cause instanceof ProjectionError) throw cause;
      throw this.refuse(key, `threw ${what}`, 'See the cause.', cause);
    }
  }

  refuse(key: ProjectionKey, problem: string, remedy: string, cause?: unknown): ProjectionError {
    const parts = [...this.keys, key];
    const declared = parts.map((part, depth) =>
      this.isData(depth) && part !== undefined ? '*' : part,
    );
    const declaredPath = pathOf(declared);
    return new ProjectionError(this.subject, pathOf(parts), problem, remedy, {
      declaredPath,
      ...(cause !== undefined && { cause }),
    });
  }

  /** Tells whether the key at this depth belongs to an object whose keys are data. */
  private isData(depth: number): boolean {
    const holder = this.within[depth - 1];
    return holder !== undefined && this.open.has(holder);
  }

  /** Makes the error to throw for one that was caught at the root. */
  failure(cause: unknown): ProjectionError {
    if (cause instanceof ProjectionError) return cause;
    return new ProjectionError(this.subject, '', 'threw while it was read', 'See the cause.', {
      cause,
    });
  }
}

/**
 * Thrown when a tool returned a value that its declaration does not cover: nothing of the result
 * leaves, and the message tells the developer where it is and what to do.
 *
 * The message is for logs. It names classes and properties, never a value; an error of a getter is
 * in `cause` only.
 */
export class ProjectionError extends Error {
  override readonly name = 'ProjectionError';
  /**
   * The path with `*` for the keys of plain objects, which may be data, so it may be shown where
   * the result may not.
   */
  readonly declaredPath: string;

  constructor(
    /** The declared class, or `the result`. */
    readonly subject: string,
    /**
     * The path from the result to the value, e.g. `orders.0.customer`; empty for the result itself,
     * `*` for a Map's entry.
     */
    readonly path: string,
    problem: string,
    remedy: string,
    options: { readonly cause?: unknown; readonly declaredPath?: string } = {},
  ) {
    super(
      `Cannot project ${path === '' ? subject : `"${path}" of ${subject}`}: it ${problem}. ${remedy}`,
      options,
    );
    this.declaredPath = options.declaredPath ?? path;
  }
}

/** The key of a value in its holder; undefined for the result itself. */
export type ProjectionKey = string | number | undefined;

const MAX_DEPTH = 64;
const MAX_VALUES = 100_000;

function pathOf(parts: readonly ProjectionKey[]): string {
  return parts.filter((part) => part !== undefined).join('.');
}
