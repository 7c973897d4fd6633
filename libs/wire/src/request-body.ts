import type { ModelOptions } from '@toolloop/protocol';

/** Returns a warning for each of these options that is set though the API does not have it. */
export function ignoredOptions<Options extends object>(
  options: Options,
  unknown: readonly (keyof Options & string)[],
  api: string,
): readonly string[] {
  const given = unknown.filter((name) => options[name] !== undefined);
  return given.map((name) => `The option "${name}" is not sent: ${api} has no such option.`);
}

/** A JSON object made of fields of which some are JSON text already. */
export class RequestBody {
  private readonly fields = new Map<string, string>();

  setJson(name: string, text: string): void {
    this.fields.set(name, text);
  }

  /** Sets each field whose value is not undefined. */
  setAll(values: Readonly<Record<string, unknown>>): void {
    for (const [name, value] of Object.entries(values)) if (value !== undefined) this.fields.set(name, JSON.stringify(value));
  }

  /** Sets the user's own fields as they are. `undefined` removes a field, for servers that refuse one of ours. */
  merge(own: ModelOptions['provider'] = {}): void {
    for (const [name, value] of Object.entries(own)) if (value === undefined) this.fields.delete(name);
    this.setAll(own);
  }

  toJson(): string {
    return `{${Array.from(this.fields, ([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
  }
}

interface Encoding {
  /** The settings that the text depends on beside the object itself. */
  readonly key: string;
  readonly text: string;
}

/**
 * Encoded texts by the identity of their source. Messages and tools are immutable and stay the same objects from step to step, so each is encoded once,
 * however long the run, and keeps its bytes, which the provider's prompt cache needs.
 */
export class EncodedOnce<T extends object> {
  private readonly known = new WeakMap<T, Encoding>();

  text(source: T, key: string, encode: () => string): string {
    const known = this.known.get(source);
    if (known?.key === key) return known.text;
    const text = encode();
    this.known.set(source, { key, text });
    return text;
  }
}
