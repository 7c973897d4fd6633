/** Where a model says that it has something from. It comes from the provider's sources, and may say anything. */
export interface Citation {
  /** `https:` or `http:` */
  readonly url?: string;
  readonly title?: string;
  /** What the provider calls a source without a URL: a file or a document. */
  readonly source?: string;
  /** The words of the source. */
  readonly quote?: string;
  /** Where in the answer's text it belongs, in UTF-16 characters. @default to all of it */
  readonly start?: number;
  /** Behind the last character. */
  readonly end?: number;
}
