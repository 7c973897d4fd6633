/**
 * An entry about what has happened that its store has not taken yet, kept beside the outcome of
 * which it tells. It is signed: write access to the place where it is kept is not enough to forge
 * one.
 */
export interface OwedEntry {
  readonly entryId: string;
  /** The time at which it happened: ISO 8601. */
  readonly at: string;
  /** Canonical JSON of the entry, read by those who owe it alone. */
  readonly text: string;
  /** The id of the key that signed the text. */
  readonly keyId: string;
  /** HMAC-SHA256 of the text, in lower-case hex. */
  readonly signature: string;
}
