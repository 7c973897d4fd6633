import { styleText } from 'node:util';
import type {
  Citation,
  JsonObject,
  LoopEvent,
  LoopEventOf,
  ToolInvocationRecord,
} from '@toolloop/protocol';
import { waitedFor } from './looks.js';
import { lineOf, shown } from './output.js';

/**
 * Shows the events of runs as they come: text as it is written, each call and what it brought on
 * lines of their own.
 */
export class ChatView {
  /** `true` while the cursor stands behind text of the model. */
  private isWithinText = false;
  /** The sources that the model has named since the last step. */
  private readonly sources: string[] = [];
  /**
   * The tools that this chat has said to have come, since each turn of a conversation offers those
   * of its entities again.
   */
  private readonly cameBefore = new Set<string>();

  constructor(
    private readonly write: (text: string) => void,
    private readonly hasColour: boolean,
  ) {}

  show(event: LoopEvent): void {
    if (event.type === 'text-delta') return this.text(shown(event.text));
    if (event.type === 'sub-run') return this.show(event.event);
    if (event.type === 'citation') this.cite(event.citation);
    if (event.type === 'step-end') for (const source of this.sources.splice(0)) this.line(source);
    const line = this.lineFor(event);
    if (line !== undefined) this.line(line);
  }

  /** Writes a line of its own. */
  line(text: string): void {
    this.write(`${this.isWithinText ? '\n' : ''}${text}\n`);
    this.isWithinText = false;
  }

  styled(style: Style, text: string): string {
    return this.hasColour ? styleText(style, text, { validateStream: false }) : text;
  }

  /** Notes a source, for below the text that it is about. */
  private cite({ title, source, url }: Citation): void {
    const words = [title ?? source, url].filter((word) => word !== undefined);
    const line = this.styled('dim', `↗ ${lineOf(words.join(' '))}`);
    if (!this.sources.includes(line)) this.sources.push(line);
  }

  private text(text: string): void {
    this.write(text);
    this.isWithinText = text === '' ? this.isWithinText : !text.endsWith('\n');
  }

  private lineFor(event: LoopEvent): string | undefined {
    if (event.type === 'tool-call')
      return this.styled('cyan', `→ ${lineOf(event.tool)} ${valueOf(event.args ?? NO_ARGUMENTS)}`);
    return this.lineForCall(event) ?? this.lineForRun(event);
  }

  private lineForCall(event: LoopEvent): string | undefined {
    if (event.type === 'tool-result') return this.result(event.record);
    if (event.type === 'tool-progress') return this.styled('dim', `  … ${valueOf(event.value)}`);
    if (event.type !== 'call-stands') return undefined;
    return this.styled(
      'dim',
      `= ${lineOf(event.call.id)} ${valueOf(event.call.args ?? NO_ARGUMENTS)} stands`,
    );
  }

  private lineForRun(event: LoopEvent): string | undefined {
    if (event.type === 'tools-injected') return this.come(event.tools);
    if (event.type === 'tools-removed') return this.go(event.tools, event.reason);
    if (event.type === 'approval-decision')
      return this.styled('dim', `  ${event.decision.decision} by ${lineOf(event.decidedBy)}`);
    if (event.type === 'warning') return this.styled('yellow', `! ${lineOf(event.message)}`);
    return event.type === 'run-end' ? this.end(event) : undefined;
  }

  private come(tools: readonly string[]): string | undefined {
    const fresh = tools.filter((tool) => !this.cameBefore.has(tool));
    for (const tool of fresh) this.cameBefore.add(tool);
    return fresh.length > 0 ? this.styled('green', `+ ${fresh.map(lineOf).join(', ')}`) : undefined;
  }

  private go(tools: readonly string[], reason: string): string {
    for (const tool of tools) this.cameBefore.delete(tool);
    return this.styled('dim', `- ${tools.map(lineOf).join(', ')} (${lineOf(reason)})`);
  }

  private result({ status, result, error }: ToolInvocationRecord): string | undefined {
    if (status === 'waiting') return undefined;
    if (status === 'succeeded') return this.styled('dim', `← ${valueOf(result ?? null)}`);
    return this.styled(
      'red',
      `← ${error ? `${error.code}: ${lineOf(error.safeMessage)}` : status}`,
    );
  }

  private end({
    finishReason,
    waitingFor,
    error,
    finishDetail,
  }: LoopEventOf<'run-end'>): string | undefined {
    if (finishReason === 'stop') return this.isWithinText ? '' : undefined;
    if (finishReason === 'waiting')
      return this.styled('yellow', `The run waits for ${waitedFor(waitingFor)}.`);
    const told = error?.message ?? finishDetail;
    const why = told === undefined ? '' : `: ${lineOf(told)}`;
    return this.styled('red', `The run ended: ${finishReason}${why}`);
  }
}

type Style = Parameters<typeof styleText>[0];

const MOST_OF_A_VALUE = 160;
const NO_ARGUMENTS: JsonObject = {};

function valueOf(value: unknown): string {
  const text = lineOf(typeof value === 'string' ? value : JSON.stringify(value));
  return text.length > MOST_OF_A_VALUE ? `${text.slice(0, MOST_OF_A_VALUE)}…` : text;
}
