import {
  AnswerFold,
  type Citation,
  isJsonObject,
  isWebAddress,
  type JsonObject,
  type ModelEvent,
  type ToolCall,
} from '@toolloop/protocol';
import type { Told } from '../call/emit-event.js';
import type { Toolset } from '../catalog/toolset.js';
import { GrowingAnswer } from '../plugins/structured-output/growing-answer.js';
import { GrowingAnswerForReader, valueForReader } from '../plugins/values/value-references.js';
import type { LiveRun } from '../run/live-run.js';
import type { StepAnswer } from './loop-state.js';

/**
 * Shows a model's events to the run's readers, claims the ids of its calls, and hands each event on
 * to the fold.
 */
export class AnswerDisplay {
  private readonly fold = new AnswerFold();
  /** Provider's id → ours, for calls of which the end has not come yet. */
  private readonly open = new Map<string, string>();
  /** Our ids of the assembled calls, in their order. */
  private readonly assembled: string[] = [];
  private callCount = 0;
  /** The answer that the run asks for, unless some of it is hidden: then it is shown at its end. */
  private readonly growing: GrowingAnswer | undefined;
  /**
   * Puts texts that the model knows by reference into what readers are shown; absent where nothing
   * is hidden.
   */
  private readonly forReader: GrowingAnswerForReader | undefined;

  constructor(
    private readonly step: number,
    private readonly toolset: Toolset,
    private readonly live: LiveRun,
  ) {
    this.growing = live.plan.answer?.codec.hidden.length === 0 ? new GrowingAnswer() : undefined;
    const { hiddenTexts } = live;
    this.forReader =
      hiddenTexts && new GrowingAnswerForReader(hiddenTexts, live.plan.answer !== undefined);
  }

  take(event: ModelEvent): Told {
    if (event.type === 'citation') return this.cite(event.citation);
    if (event.type === 'warning') return this.warn(event.message);
    this.fold.take(event);
    return this.show(event);
  }

  private show(event: Exclude<ModelEvent, { readonly type: 'citation' | 'warning' }>): Told {
    switch (event.type) {
      case 'text-delta':
        return this.showText(event.text);
      case 'reasoning-delta':
        return this.live.emit({ type: 'reasoning-delta', step: this.step, text: event.text });
      case 'tool-call-delta':
        return this.showDelta(event);
      case 'tool-call':
        this.assembled.push(this.claim(event.toolCallId));
        this.open.delete(event.toolCallId);
        return undefined;
      case 'provider-tool':
        return this.live.emit({
          type: 'provider-tool',
          step: this.step,
          id: event.id,
          name: event.name,
          status: event.status,
        });
      case 'finish':
        return this.showEnd();
      case 'model':
      case 'usage':
        return undefined;
    }
  }

  private showText(text: string): Told {
    const shown = this.showDeltaOf(this.forReader?.take(text) ?? text);
    const output = this.growing?.take(text);
    return output ? Promise.resolve(shown).then(() => this.showOutput(output)) : shown;
  }

  private showDeltaOf(text: string): Told {
    return text === '' ? undefined : this.live.emit({ type: 'text-delta', step: this.step, text });
  }

  private showEnd(): Told {
    const rest = this.showDeltaOf(this.forReader?.end() ?? '');
    const output = this.growing?.end();
    return output ? Promise.resolve(rest).then(() => this.showOutput(output)) : rest;
  }

  private async showOutput(growing: Promise<JsonObject | undefined>): Promise<void> {
    const written = await growing;
    const { hiddenTexts } = this.live;
    const output = written && hiddenTexts ? valueForReader(written, hiddenTexts, false) : written;
    if (isJsonObject(output))
      await this.live.emit({ type: 'output-delta', step: this.step, output });
  }

  get answer(): StepAnswer {
    const { answer } = this.fold;
    const { beyondTranscript: labels } = this.live.flow;
    return {
      ...answer,
      toolCalls: answer.toolCalls.map((call, index) => this.claimed(call, index)),
      ...(labels && { labels }),
    };
  }

  /** Shows a warning of a model once a run: the same request options hold in every step. */
  private warn(message: string): Told {
    const { warnings } = this.live;
    if (warnings.has(message)) return undefined;
    warnings.add(message);
    return this.live.emit({ type: 'warning', step: this.step, code: 'option_ignored', message });
  }

  /**
   * A reader makes a link of the address: one that is not of the web, such as a script, is left
   * out, whatever model says it.
   */
  private cite({ url, ...source }: Citation): Told {
    const citation = { ...source, ...(isWebAddress(url) && { url }) };
    if (SOURCES.every((name) => citation[name] === undefined)) return undefined;
    this.fold.take({ type: 'citation', citation });
    return this.live.emit({ type: 'citation', step: this.step, citation });
  }

  /**
   * Arguments are shown while they come only where the tool's input hides nothing, and where it is
   * known what they are for: over a surface that is said among them.
   */
  private showDelta(event: Extract<ModelEvent, { readonly type: 'tool-call-delta' }>): Told {
    const toolCallId = this.claim(event.toolCallId);
    const tool = this.toolset.find(event.name);
    if (!tool || tool.surface || tool.input.hidden.length > 0) return undefined;
    return this.live.emit({
      type: 'tool-call-delta',
      step: this.step,
      toolCallId,
      tool: event.name,
      argumentsDelta: event.argumentsDelta,
    });
  }

  /** A call under our own id, with the provider's kept for the wire where it had to be replaced. */
  private claimed(
    { toolCallId: providerId, name, arguments: text }: ToolCall,
    index: number,
  ): ToolCall {
    const toolCallId = this.assembled[index] ?? providerId;
    const replaced = toolCallId !== providerId && { providerCallId: providerId };
    return { toolCallId, name: name.slice(0, MOST_NAME_CHARACTERS), arguments: text, ...replaced };
  }

  /** Our id of a call: claimed when its first event comes, and the same until its last. */
  private claim(providerId: string): string {
    const known = this.open.get(providerId);
    if (known !== undefined) return known;
    const claimed = this.live.callIds.claim(providerId, this.step, this.callCount);
    this.callCount += 1;
    this.open.set(providerId, claimed);
    return claimed;
  }
}

/** The longest tool name that is kept; what a model makes up goes into events and records. */
const MOST_NAME_CHARACTERS = 128;

/** The fields that tell a source; a citation with none of them cites nothing. */
const SOURCES = ['url', 'title', 'source', 'quote'] as const satisfies readonly (keyof Citation)[];
