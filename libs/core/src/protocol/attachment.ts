import type { ContentPart } from './message.js';

/** An image or a file in a message. */
export type MediaPart = Exclude<ContentPart, { readonly type: 'text' }>;

/** What a tool adds to its result for the model to look at: an `https:` or `data:` URL, or the bytes and what they are. */
export type Attachment =
  MediaPart | { readonly type: 'image' | 'file'; readonly data: Uint8Array; readonly mediaType: string; readonly name?: string };

/** All that an audit keeps of an attachment. */
export interface AttachmentDigest {
  readonly type: MediaPart['type'];
  readonly mediaType?: string;
  /** Of the content, or of the URL where the content lies elsewhere. */
  readonly bytes: number;
  /** SHA-256 of the same, in hex. */
  readonly sha256: string;
}

/** An attachment as the ui sees it. */
export interface RecordedAttachment extends AttachmentDigest {
  /** Content of a tool's own is in it, as base64. */
  readonly url: string;
  readonly name?: string;
}

/** A result with images or files beside it; made by {@link attach}. */
export class AttachedResult<Value = unknown> {
  constructor(
    /** What is projected, and what injection looks at. */
    readonly value: Value,
    readonly attachments: readonly Attachment[],
  ) {}
}

/**
 * Returns images and files beside a tool's value: `return attach(chart, { type: 'image', data: png, mediaType: 'image/png' })`. The value is checked
 * and projected as ever; the attachments go to the model behind it, and into the record for the ui, whatever `output` or `reveal` say.
 *
 * At most 32 are taken, and `limits.attachmentBytes` of content in all. One that is too large, has another scheme than `https:` or `data:`, or is no
 * image where it says so is left out, and the model reads that: the tool has done its work, and a request that a provider refuses would end the run.
 */
export function attach<Value>(value: Value, ...attachments: readonly Attachment[]): AttachedResult<Value> {
  return new AttachedResult(value, attachments);
}

/** The value a tool returned, without what is attached to it. */
export function withoutAttachments(result: unknown): unknown {
  return result instanceof AttachedResult ? result.value : result;
}
