import { Injectable } from '@nestjs/common';
import {
  type AssistantMessage,
  type Citation,
  isWebAddress,
  type LanguageModel,
  type MessageLabels,
  type ModelEvent,
  type ModelFinishReason,
  type ModelRequest,
  NO_USAGE,
  type ToolCall,
  type Usage,
} from '@toolloop/protocol';
import type { Toolset } from '../catalog/toolset.js';
import { Interruption, type LinkedSignal, linkSignal } from '../execution/call-failure.js';
import type { LiveRun } from './live-run.js';
import type { PreparedStep } from './step-preparation.js';

/** Asks the model once. */
@Injectable()
export class ModelStep {
  /** Never throws: an answer that was cut short carries its failure, and what had come until then. */
  async ask({ step, model, toolset, request }: PreparedStep, live: LiveRun): Promise<ModelAnswer> {
    const assembler = new AnswerAssembler(step, toolset, live);
    const { modelIdleMs } = live.plan.execution.limits;
    const failure = await readModel(model, request, { signal: live.signal, modelIdleMs }, (event) => assembler.take(event));
    return assembler.answer(failure);
  }
}

/** How long a model may be read. */
export interface ReadingLimits {
  readonly signal: AbortSignal;
  readonly modelIdleMs: number;
}

/** Takes an event; a promise makes the reading wait. */
export type EventTaker = (event: ModelEvent) => void | Promise<void>;

/** Reads one answer of a model to its end. Never throws: answers with what cut it short, if anything did. */
export async function readModel(model: LanguageModel, request: ModelRequest, limits: ReadingLimits, take: EventTaker): Promise<unknown> {
  const link = linkSignal(limits.signal);
  const silence = new SilenceWatch(link, limits.modelIdleMs);
  try {
    const events = new InterruptibleIterator(model.stream(request, link.signal), link.signal);
    await readAll(events, take, silence).finally(() => events.close());
    return link.signal.aborted ? Interruption.from(link.signal) : undefined;
  } catch (error) {
    return link.signal.aborted ? Interruption.from(link.signal) : error;
  } finally {
    silence.stop();
    link.release();
  }
}

async function readAll(events: InterruptibleIterator<ModelEvent>, take: EventTaker, silence: SilenceWatch): Promise<void> {
  for (;;) {
    silence.listen();
    const next = await events.next();
    silence.pause();
    if (next.done) return;
    const slowReader = take(next.value);
    if (slowReader) await slowReader;
  }
}

/** Reads an iteration until it ends or the signal is aborted, whether the iteration listens to the signal or not. One listener serves all reads. */
export class InterruptibleIterator<Value> {
  private readonly iterator: AsyncIterator<Value>;
  private reject: ((reason: Interruption) => void) | undefined;
  private readonly interrupt = (): void => this.reject?.(Interruption.from(this.signal));

  constructor(
    source: AsyncIterable<Value>,
    private readonly signal: AbortSignal,
  ) {
    this.iterator = source[Symbol.asyncIterator]();
    signal.addEventListener('abort', this.interrupt, { once: true });
  }

  next(): Promise<IteratorResult<Value>> {
    if (this.signal.aborted) return Promise.reject(Interruption.from(this.signal));
    return new Promise((resolve, reject) => {
      this.reject = reject;
      this.iterator.next().then(resolve, reject);
    });
  }

  /** Tells the source that nobody reads on. Not awaited: a source that hangs may hang here too. */
  close(): void {
    this.signal.removeEventListener('abort', this.interrupt);
    void this.leave().catch(() => undefined);
  }

  private async leave(): Promise<void> {
    await this.iterator.return?.();
  }
}

/** Interrupts a model that stays silent for too long. The time in which the reader of the events makes the run wait does not count. */
export class SilenceWatch {
  private timer: NodeJS.Timeout;
  private isListening = false;
  private since = 0;

  constructor(
    private readonly link: LinkedSignal,
    private readonly ms: number,
  ) {
    this.timer = setTimeout(() => this.check(), ms);
  }

  listen(): void {
    this.since = performance.now();
    this.isListening = true;
  }

  pause(): void {
    this.isListening = false;
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private check(): void {
    const silentFor = this.isListening ? performance.now() - this.since : 0;
    if (this.isListening && silentFor >= this.ms) this.link.abort(new Interruption('timeout', `The model was silent for ${this.ms} ms.`));
    else this.timer = setTimeout(() => this.check(), this.ms - silentFor);
  }
}

/** One answer of the model, whole. */
export interface ModelAnswer {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly ToolCall[];
  readonly citations: readonly Citation[];
  readonly usage: Usage;
  readonly finishReason: ModelFinishReason;
  readonly providerData: AssistantMessage['providerData'];
  /** Set where its model was shown more than the transcript tells, such as the tools of strangers. */
  readonly labels?: MessageLabels;
  /** `provider/modelId`, where that is not who was asked. */
  readonly answeredBy?: string;
  /** What ended the answer before its end. */
  readonly failure?: unknown;
}

/** No tool has a longer name; what a model makes up goes into events and records. */
const MOST_NAME_CHARACTERS = 128;

/** What says where something is from; without any of it a citation cites nothing. */
const SOURCES = ['url', 'title', 'source', 'quote'] as const satisfies readonly (keyof Citation)[];

/** Puts a model's events together, and shows them while they come. */
export class AnswerAssembler {
  private text = '';
  private reasoning = '';
  private usage = NO_USAGE;
  private answeredBy: string | undefined;
  private finishReason: ModelFinishReason = 'incomplete';
  private providerData: AssistantMessage['providerData'];
  private readonly calls: ToolCall[] = [];
  private readonly citations: Citation[] = [];
  /** Provider's id → ours, for calls that were begun and not assembled yet. */
  private readonly begun = new Map<string, string>();
  private callCount = 0;

  constructor(
    private readonly step: number,
    private readonly toolset: Toolset,
    private readonly live: LiveRun,
  ) {}

  /** Returns a promise only where the reader of the events makes the run wait. */
  take(event: ModelEvent): void | Promise<void> {
    switch (event.type) {
      case 'text-delta':
        this.text += event.text;
        return this.live.emit({ type: 'text-delta', step: this.step, text: event.text });
      case 'reasoning-delta':
        this.reasoning += event.text;
        return this.live.emit({ type: 'reasoning-delta', step: this.step, text: event.text });
      case 'tool-call-delta':
        return this.showDelta(event);
      case 'tool-call':
        this.addCall(event);
        return undefined;
      case 'provider-tool':
        return this.live.emit({ type: 'provider-tool', step: this.step, id: event.id, name: event.name, status: event.status });
      case 'citation':
        return this.cite(event.citation);
      case 'model':
        this.answeredBy = `${event.provider}/${event.modelId}`;
        return undefined;
      case 'usage':
        this.usage = event.usage;
        return undefined;
      case 'finish':
        this.finishReason = event.finishReason;
        this.providerData = event.providerData;
        return undefined;
    }
  }

  answer(failure?: unknown): ModelAnswer {
    const { text, reasoning, calls, citations, usage, finishReason, providerData, answeredBy } = this;
    const whole = { text, reasoning, calls, citations, usage, finishReason, providerData };
    const { beyondTranscript: labels } = this.live;
    return {
      ...whole,
      ...(labels && { labels }),
      ...(answeredBy !== undefined && { answeredBy }),
      ...(failure !== undefined && { failure }),
    };
  }

  /** A reader makes a link of the address: one that is not of the web, such as a script, is left out, whatever model says it. */
  private cite({ url, ...source }: Citation): void | Promise<void> {
    const citation = { ...source, ...(isWebAddress(url) && { url }) };
    if (SOURCES.every((name) => citation[name] === undefined)) return undefined;
    this.citations.push(citation);
    return this.live.emit({ type: 'citation', step: this.step, citation });
  }

  /**
   * Arguments are shown while they come only where the tool's input hides nothing, and where it is known what they are for: over a surface that is said
   * among them.
   */
  private showDelta(event: Extract<ModelEvent, { readonly type: 'tool-call-delta' }>): void | Promise<void> {
    const toolCallId = this.idOf(event.toolCallId);
    const tool = this.toolset.find(event.name);
    if (!tool || tool.surface || tool.input.hidden.length > 0) return undefined;
    return this.live.emit({ type: 'tool-call-delta', step: this.step, toolCallId, tool: event.name, argumentsDelta: event.argumentsDelta });
  }

  private addCall({ toolCallId: providerId, name, arguments: text }: Extract<ModelEvent, { readonly type: 'tool-call' }>): void {
    const toolCallId = this.idOf(providerId);
    this.begun.delete(providerId);
    this.calls.push({
      toolCallId,
      name: name.slice(0, MOST_NAME_CHARACTERS),
      arguments: text,
      ...(toolCallId !== providerId && { providerCallId: providerId }),
    });
  }

  private idOf(providerId: string): string {
    const begun = this.begun.get(providerId);
    if (begun !== undefined) return begun;
    const claimed = this.live.callIds.claim(providerId, this.step, this.callCount);
    this.callCount += 1;
    this.begun.set(providerId, claimed);
    return claimed;
  }
}
