import type { MediaPart } from '@toolloop/protocol';

/**
 * An addition to a tool's result that the model can look at: an `https:` or `data:` URL, or bytes
 * with their type.
 */
export type Attachment =
  | MediaPart
  | {
      readonly type: 'image' | 'file';
      readonly data: Uint8Array;
      readonly mediaType: string;
      readonly name?: string;
    };

/** A result with images or files beside it; made by {@link attach}. */
export class AttachedResult<Value = unknown> {
  constructor(
    /** The value that is projected, and from which injection starts. */
    readonly value: Value,
    readonly attachments: readonly Attachment[],
    /** The answer in words, see {@link sourceAnswer}. */
    readonly words?: string,
  ) {}
}

/**
 * Returns images and files beside a tool's value: `return attach(chart, { type: 'image', data: png,
 * mediaType: 'image/png' })`. The value is checked and projected as ever; the attachments go to the
 * model behind it, and into the record for the ui, whatever `output` or `reveal` say.
 *
 * At most 32 are taken, and `limits.attachmentBytes` of content in all. One that is too large, has
 * another scheme than `https:` or `data:`, or is no image where it says so is left out, and the
 * model reads that: the tool has done its work, and a request that a provider refuses would end the
 * run.
 */
export function attach<Value>(
  value: Value,
  ...attachments: readonly Attachment[]
): AttachedResult<Value> {
  return new AttachedResult(value, attachments);
}

/**
 * An answer that was given elsewhere, beside the value that the tool's `outputSchema` describes.
 */
export interface SourceAnswerParts {
  /**
   * The answer in words. The model reads them if the value is not in the form that the tool
   * declares. @default the value
   */
  readonly words?: string;
  /** Images and files of the answer. @default none */
  readonly attachments?: readonly Attachment[];
}

/**
 * Returns the answer of a tool that was declared elsewhere. The tool has done its work when it
 * answers, so the answer of an untrusted source that is not in the declared form is no failure of
 * the call: the model reads its words, and that they are not in the declared form.
 *
 * @example
 * return sourceAnswer(answer.structured, { words: answer.text });
 */
export function sourceAnswer<Value>(
  value: Value,
  { words, attachments = [] }: SourceAnswerParts = {},
): AttachedResult<Value> {
  return new AttachedResult(value, attachments, words);
}

/** The value a tool returned, without what is attached to it. */
export function withoutAttachments(result: unknown): unknown {
  return result instanceof AttachedResult ? result.value : result;
}
