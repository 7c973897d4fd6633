import { Injectable, Logger } from '@nestjs/common';
import type { Attachment, RecordedAttachment } from '../protocol/attachment.js';
import type { JsonValue } from '../protocol/json.js';
import type { Audience, Tool } from '../protocol/tool.js';
import { ProjectionError } from '../schema/projection.error.js';
import { SchemaValidators } from '../schema/schema.validators.js';
import { readAttachments, type ReadAttachments } from './attached-media.js';
import { CallFailure } from './call.failure.js';
import { limitsOf } from './call-limits.js';
import type { CallProgress } from './execution.scope.js';
import { metadataOf, resultText, withMetadata } from './result.format.js';
import type { InvokedResult } from './tool.invoker.js';

/** A result as its two readers see it. */
export interface DescribedResult {
  /** For the model; text, or JSON as text. */
  readonly content: string;
  readonly ui: JsonValue;
  /** Bytes of the model's projection before it was cut. */
  readonly bytes: number;
  readonly truncated: boolean;
  /** Absent where there are none. */
  readonly attachments?: readonly RecordedAttachment[];
}

/** Stage 8: checks a result against what the tool declares, projects it for model and ui, and cuts it to its byte budget. */
@Injectable()
export class ResultDescriber {
  private readonly logger = new Logger(ResultDescriber.name);

  constructor(private readonly validators: SchemaValidators) {}

  /** Throws `invalid_output`; what is wrong with the result is in the log, for the developer. */
  describe(tool: Tool, { result: live, attachments }: InvokedResult, progress: CallProgress): DescribedResult {
    const { resultBytes: mostBytes } = limitsOf(progress);
    const model = this.project(tool, live, 'model');
    const problems = tool.spec.outputSchema ? this.validators.validate(tool.spec.outputSchema, model) : [];
    if (problems.length > 0)
      throw this.invalid(tool, problems.map(({ pointer, message }) => `${pointer || 'result'} ${message}`).join('; '));
    const metadata = metadataOf(tool, progress);
    const ui = withMetadata(this.project(tool, live, 'ui'), metadata);
    const sentence = this.sentenceFor(tool, model, progress);
    const attached = attachments.length > 0 ? this.attached(tool, attachments, progress) : undefined;
    const worded = resultText(tool, { live, value: withMetadata(model, metadata), sentence }, progress);
    const text = attached?.note === undefined ? worded : `${worded}\n${attached.note}`;
    const bytes = Buffer.byteLength(text);
    const uiText = JSON.stringify(ui);
    return {
      content: cut(text, bytes, mostBytes),
      ui: Buffer.byteLength(uiText) > mostBytes ? cut(uiText, Buffer.byteLength(uiText), mostBytes) : ui,
      bytes,
      truncated: bytes > mostBytes,
      ...(attached && { attachments: attached.kept }),
    };
  }

  private attached(tool: Tool, attachments: readonly Attachment[], { scope }: CallProgress): ReadAttachments {
    const attached = readAttachments(attachments, scope.limits.attachmentBytes);
    if (attached.note !== undefined) this.logger.warn(`${tool.spec.declaredId} (run ${scope.run.runId}): ${attached.note}`);
    return attached;
  }

  /** The tool has done its work: that it cannot word it is no failure of the call. */
  private sentenceFor(tool: Tool, model: JsonValue, { options, scope }: CallProgress): string | undefined {
    if (options.resultFormat === 'value') return undefined;
    try {
      return tool.humanReadable?.(model);
    } catch (error) {
      this.logger.warn(`The result of ${tool.spec.declaredId} could not be worded (run ${scope.run.runId}).`, error);
      return undefined;
    }
  }

  private project(tool: Tool, live: unknown, audience: Audience): JsonValue {
    try {
      return tool.output.project(live, audience);
    } catch (error) {
      throw this.invalid(tool, error instanceof ProjectionError ? error.message : 'the projection failed', error);
    }
  }

  private invalid(tool: Tool, reason: string, cause?: unknown): CallFailure {
    this.logger.error(`The result of ${tool.spec.declaredId} is not what it declares: ${reason}`, cause);
    const effect = tool.spec.effect === 'read_only' ? '' : ' Its effect took place: do not repeat the call.';
    return new CallFailure({ code: 'invalid_output', safeMessage: `The tool ran, but its result cannot be shown.${effect}` }, { cause });
  }
}

/** The head and the tail of a text that is too long, with a note between them, all within the budget. */
function cut(text: string, bytes: number, mostBytes: number): string {
  if (bytes <= mostBytes) return text;
  const note = `\n[… ${bytes} bytes in all; the middle was left out. Ask for less at a time. …]\n`;
  if (Buffer.byteLength(note) > mostBytes)
    return Buffer.from(note)
      .subarray(0, mostBytes)
      .toString('utf8')
      .replace(/\uFFFD+$/, '');
  const room = mostBytes - Buffer.byteLength(note);
  const buffer = Buffer.from(text);
  const head = buffer
    .subarray(0, Math.ceil(room * 0.75))
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
  const tail = buffer
    .subarray(bytes - Math.floor(room * 0.25))
    .toString('utf8')
    .replace(/^\uFFFD+/, '');
  return head + note + tail;
}
