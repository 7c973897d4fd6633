import { inspect } from 'node:util';

/**
 * A value that prints as `[secret]` wherever something prints it: in JSON, logs, templates, results
 * and events. Only `reveal()` gives it.
 *
 * It is for what the application knows, such as a field of an entity or of the request's `context`.
 * A tool's input cannot hold one: what a model sends is in the transcript. An idempotency key
 * cannot either: all of them would be the same.
 */
export class Secret<Value> {
  readonly #value: Value;

  constructor(value: Value) {
    this.#value = value;
  }

  reveal(): Value {
    return this.#value;
  }

  toString(): string {
    return SHOWN;
  }

  toJSON(): string {
    return SHOWN;
  }

  [Symbol.toPrimitive](): string {
    return SHOWN;
  }

  [inspect.custom](): string {
    return SHOWN;
  }
}

const SHOWN = '[secret]';
