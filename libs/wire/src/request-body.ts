import type { ModelOptions } from '@toolloop/core';

/** A JSON object put together from fields of which some are JSON text already. */
export class RequestBody {
  private readonly fields = new Map<string, string>();

  setJson(name: string, text: string): void {
    this.fields.set(name, text);
  }

  /** What is undefined is left out. */
  setAll(values: Readonly<Record<string, unknown>>): void {
    for (const [name, value] of Object.entries(values)) if (value !== undefined) this.fields.set(name, JSON.stringify(value));
  }

  /** The user's own fields as they are. `undefined` takes a field away, for servers that refuse one of ours. */
  merge(own: ModelOptions['provider'] = {}): void {
    for (const [name, value] of Object.entries(own)) if (value === undefined) this.fields.delete(name);
    this.setAll(own);
  }

  toJson(): string {
    return `{${Array.from(this.fields, ([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
  }
}
