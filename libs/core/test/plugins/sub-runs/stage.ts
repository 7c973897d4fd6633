import type { TestingModule } from '@nestjs/testing';
import {
  PendingService,
  type LoopEvent,
  type LoopRequest,
  type LoopResult,
  subRunTool,
  ToolLoopService,
} from '@toolloop/core';
import { type SubRunToolDeclaration } from '@toolloop/core/catalog';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  eventsOf,
  expectRunEndsOnce,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import type { Act } from '../../fixtures/probe.tools.js';
import { expectSound, resultOf, type PlayedRun } from '../../fixtures/played-run.js';
import { ask, openModule, type ShopOptions } from '../../fixtures/shop.module.js';

export const alice = { actor: { id: 'alice' }, tenant: 'acme' };
export const read = (key = 'a') => call('probe__read', { key });
export const write = (key = 'a') => call('probe__write', { key });
export const send = (key = 'a') => call('probe__send', { key });
/** The call of the sub-run. */
export const research = (prompt = 'Find out.') => calls(call('research', { prompt }));

export interface Script {
  /** Of the run around. @default it asks for the sub-run once, and answers */
  readonly outer?: readonly ScriptedTurn[];
  readonly inner: readonly ScriptedTurn[];
  /** What the sub-run says of itself. */
  readonly subRun?: Partial<SubRunToolDeclaration>;
  readonly options?: Partial<ShopOptions>;
}

/** A shop with the sub-run `research`, and a model for each of the two runs. */
export interface Stage {
  readonly outer: ScriptedModel;
  readonly inner: ScriptedModel;
  readonly module: TestingModule;
  readonly loop: ToolLoopService;
  readonly approvals: PendingService;
  /** What the tools did, in order. */
  readonly done: string[];
  readonly request: (more?: Partial<LoopRequest>) => LoopRequest;
  readonly play: (more?: Partial<LoopRequest>) => Promise<PlayedRun>;
  readonly decide: (decision: 'approve' | 'deny') => Promise<void>;
  readonly resume: (runId: string, more?: Partial<LoopRequest>) => Promise<PlayedRun>;
}

export async function stage({
  outer: script = [research(), text('Told.')],
  inner: within,
  subRun = {},
  options = {},
}: Script): Promise<Stage> {
  const outer = new ScriptedModel(script, { modelId: 'outer' });
  const inner = new ScriptedModel(within, { modelId: 'inner' });
  const declaration = {
    id: 'research',
    description: 'Finds out.',
    tools: ['probe__*'],
    model: inner,
    ...subRun,
  };
  const module = await openModule(outer, {
    ...options,
    tools: [subRunTool(declaration as SubRunToolDeclaration), ...(options.tools ?? [])],
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const approvals: PendingService = module.get(PendingService);
  const done: string[] = [];
  const act: Act = (key) => {
    done.push(key);
    return `${key} done`;
  };
  const request = (more: Partial<LoopRequest> = {}): LoopRequest =>
    ask({ context: { act }, ...more });
  return {
    outer,
    inner,
    module,
    loop,
    approvals,
    done,
    request,
    play: async (more) => {
      const handle = loop.open(request(more));
      const played = { events: await collect(handle.events$), result: await resultOf(handle) };
      if (played.result.finishReason !== 'waiting') expectSound(played);
      expectRunEndsOnce(played.events);
      return played;
    },
    decide: async (decision) => {
      const [{ approvalId } = { approvalId: '' }] = await approvals.list(alice);
      await approvals.decide({ approvalId, decision, reason: 'I say so.' }, alice);
    },
    resume: async (runId, more) => {
      const handle = await loop.resume(runId, { ...request(more), prompt: undefined } as never);
      const events = await collect(handle.events$);
      return { events, result: await handle.result };
    },
  };
}

/** The events of the sub-runs, as they were told. */
export function innerEvents(events: readonly LoopEvent[]): LoopEvent[] {
  return eventsOf(events, 'sub-run').map(({ event }) => event);
}

/** What the model of the run around was told of the sub-run. */
export function toldOf({ messages }: LoopResult): unknown {
  const result = messages.find(
    (message) => message.role === 'tool' && message.toolName === 'research',
  );
  return JSON.parse(result?.content as string) as unknown;
}

/** The one sub-run of a run: as a run of its own it obeys what every run obeys. */
export function expectSoundWithin(events: readonly LoopEvent[]): void {
  expectRunEndsOnce(innerEvents(events));
}
