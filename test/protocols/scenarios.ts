import { setTimeout as wait } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import {
  calledTool,
  clientTool,
  LanguageModel,
  LlmTool,
  ModelError,
  ToolContext,
  type ToolCallContext,
  ToolError,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import { call, calls, fails, type ScriptedAnswer, ScriptedModel, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { type Served, serveApp } from '../../libs/http/test/served-app.js';

/** An entity, whose tools come with it. */
@ToolProvider({ prefix: 'page', instanceIdProperty: 'id' })
export class Page {
  @Expose() readonly id: string = 'p-1';

  @LlmTool({ description: 'The title of this page.', effect: 'read_only', reveal: 'all' })
  title(): string {
    return 'First';
  }
}

/** The clients that take answers back: each has its own stamp. */
const STAMPING = ['use-chat', 'use-chat at once', 'ag-ui', 'transport', 'aiSdk'] as const;

@ToolProvider({ namespace: 'desk' })
export class DeskTools {
  /** Who has had a stamp, once for each. */
  readonly stamped: string[] = [];

  @LlmTool({
    description: 'Stamps a paper.',
    effect: 'state_change',
    reveal: 'all',
    labels: { returns: 'trusted' },
  })
  stamp(@ToolParam('by', { description: 'The owner of the paper.' }) by: string): string {
    this.stamped.push(by);
    return `stamp for ${by}`;
  }

  @LlmTool({ description: 'Opens a page.', effect: 'read_only', output: Page })
  open(): Page {
    return new Page();
  }

  @LlmTool({
    description: 'Closes the desk, with which the answer ends.',
    effect: 'read_only',
    reveal: 'all',
  })
  close(): string {
    return 'closed';
  }

  @LlmTool({ description: 'Fails.', effect: 'read_only', reveal: 'all' })
  broken(): string {
    throw new ToolError('The desk is closed.');
  }

  @LlmTool({ description: 'Asks for a size.', effect: 'read_only', reveal: 'all' })
  async size(
    @ToolContext() context: ToolCallContext,
    @ToolParam('hint', { description: 'A hint.', default: '' }) _hint: string,
  ): Promise<string> {
    const size = await context.ask({
      key: 'size',
      question: 'Which size?',
      schema: { type: 'string', enum: ['S', 'M'] },
    });
    return `size ${JSON.stringify(size)}`;
  }
}

@Module({ providers: [DeskTools] })
class DeskModule {}

const SCREEN = clientTool({
  id: 'screen__pick',
  description: 'Lets the user pick a colour.',
  effect: 'read_only',
  input: { type: 'object' },
});

const ONE = (name: string, args: Parameters<typeof call>[1] = {}): ScriptedAnswer =>
  calls(call(name, args));

/** The answers to each question, one for each step. */
type Scripts = Readonly<Record<string, readonly ScriptedAnswer[]>>;

const FAIL = [fails(new ModelError('out of order'))];

const NOTES: Scripts = {
  'Say hello': [text('Hello there.')],
  'Read it': [ONE('notes__read', { id: 'n-1' }), text('It is note n-1.')],
  'Open it': [ONE('desk__open'), ONE('page_p-1_title'), text('Its title is First.')],
  'Break it': [ONE('desk__broken'), text('The desk is closed.')],
  'Close it': [ONE('desk__close')],
  Fail: FAIL,
  'Delete it': [ONE('notes__delete', { id: 'n-1' }), text('That is settled.')],
  'Ask me': [ONE('desk__size'), text('You have said it.')],
  'Pick one': [ONE('screen__pick'), text('You have picked one.')],
  ...Object.fromEntries(
    STAMPING.flatMap((by) => {
      const stamp = ONE('desk__stamp', { by });
      // What stands of an answer that was taken back comes first: the next step after it asks for
      // the same stamp again.
      return [
        [`Stamp for ${by}`, [stamp, text('It is stamped.')]],
        [`Stamp it for ${by}`, [text('It has none.'), stamp, text('It has had its stamp.')]],
      ];
    }),
  ),
};

/**
 * The two questions that the rule-based model of the demo has no way for: to fail, and to mail
 * after it has read what customers write, for which the desk asks the very person who asked.
 */
export const DESK: Scripts = {
  Fail: FAIL,
  'Write to the customer of o-1021': [
    ONE('crm__read', { get_by: { id: 'c-123' } }),
    ONE('orders__sendReceipt', { orderId: 'o-1021' }),
    text('That is settled.'),
  ],
};

/** An answer with a source in its middle. */
const CITED: readonly ModelEvent[] = [
  { type: 'text-delta', text: 'It rains' },
  {
    type: 'citation',
    citation: { url: 'https://weather.example/', title: 'The weather', start: 0, end: 8 },
  },
  { type: 'text-delta', text: ' today.' },
  { type: 'finish', finishReason: 'stop' },
];

/** The pieces of the long answer, which takes about a second. */
export const PIECES: readonly string[] = Array.from({ length: 40 }, (_, index) => `${index} `);

/**
 * Answers each question by its script, however many clients ask at once, "Count" with a long answer
 * that can be left and read on, and leaves the others to another model.
 */
export class ScenarioModel extends LanguageModel {
  readonly provider = 'scenario';
  readonly modelId = 'scenario';
  /** The questions that were asked, one for each step. */
  readonly asked: string[] = [];
  aborted = 0;

  constructor(
    private readonly scripts: Scripts = NOTES,
    private readonly unscripted: LanguageModel = new ScriptedModel([]),
  ) {
    super();
  }

  async *stream(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    const { messages } = request;
    const last = messages.findLastIndex(({ role }) => role === 'user');
    const question = textOf(messages[last]?.content);
    this.asked.push(question);
    if (question.startsWith('Count')) return yield* this.count(signal);
    if (question === 'Cite it') return yield* CITED;
    const step = messages.slice(last).filter(({ role }) => role === 'assistant').length;
    const answer = this.scripts[question]?.[step];
    yield* (answer ? new ScriptedModel([answer]) : this.unscripted).stream(request, signal);
  }

  private async *count(signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    for (const piece of PIECES) {
      yield { type: 'text-delta', text: piece };
      await wait(25);
      if (!signal.aborted) continue;
      this.aborted += 1;
      throw signal.reason;
    }
    yield { type: 'finish', finishReason: 'stop' };
  }
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return Array.isArray(content)
    ? content.map((part: { readonly text?: string }) => part.text ?? '').join('')
    : '';
}

interface Clients {
  readonly shared: { readonly connect: (url: string, name: 'notes' | 'desk') => void };
  readonly openai: { readonly openAiPlays: () => Promise<Told> };
  readonly 'event-source': { readonly eventSourcePlays: () => Promise<Told> };
}

/** What a client understood, by scenario. */
export type Told = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/**
 * Loads a client. They are plain modules, which the check of releases starts without a compiler.
 */
export async function clients<Name extends keyof Clients>(name: Name): Promise<Clients[Name]> {
  return (await import(new URL(`clients/${name}.mjs`, import.meta.url).href)) as Clients[Name];
}

/**
 * An application for clients of others to talk to: a call, tools that come with an entity, a call
 * and a run that fail, an approval, a question, and a call of the client.
 */
export function serveScenarios(model: ScenarioModel): Promise<Served> {
  const policy = {
    version: 'scenarios-1',
    allow: ['notes__*', 'desk__*', 'page_*_*', 'screen__*'],
    requireApproval: [{ tools: ['notes__delete'], reason: 'A person looks at it.' }],
  };
  return serveApp({
    model,
    modules: [DeskModule],
    loop: { policy, tools: [SCREEN], stopWhen: calledTool('desk__close') },
  });
}
