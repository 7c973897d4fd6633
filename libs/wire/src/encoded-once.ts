interface Encoding {
  /** What the text depends on beside the object itself. */
  readonly key: string;
  readonly text: string;
}

/**
 * Texts by the identity of what they encode. Messages and tools are immutable and stay the same objects from step to step, so each is encoded once,
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
