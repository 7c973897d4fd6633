import { describe, expect, it } from '@jest/globals';
import { Injectable, type Provider } from '@nestjs/common';
import {
  ConfigurationError,
  type LoopRequest,
  PendingService,
  subRunTool,
  toolLoopToken,
  ToolLoopService,
} from '@toolloop/core';
import {
  memory,
  type Plugin,
  type PluginValue,
  type RunView,
  schemaOf,
  slot,
  type SlotInheritance,
  ToolLoopPlugin,
} from '@toolloop/core/plugin';
import { call, calls, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { alice, asking, write } from '../fixtures/approval.shop.js';
import { play, resultOf } from '../fixtures/played-run.js';
import { ask, openModule } from '../fixtures/shop.module.js';

const urgency = (inherit: SlotInheritance) =>
  slot({
    name: 'acme.hours/urgency',
    version: 1,
    schema: schemaOf((value): value is string => typeof value === 'string'),
    initial: (): string => 'whenever',
    inherit,
  });

/** A shop with a plugin that notes how urgent each step is. */
async function shop(
  script: readonly ScriptedTurn[],
  inherit: SlotInheritance = 'share',
  options: Parameters<typeof openModule>[1] = {},
) {
  const seen: string[] = [];
  const urgent = urgency(inherit);
  const unsaved = memory({ name: 'acme.hours/unsaved', inherit: 'share', make: () => 0 });
  @Injectable()
  @ToolLoopPlugin({ name: 'acme.hours', slots: [urgent, unsaved] })
  class Hours implements Plugin {
    stepping(run: RunView): void {
      seen.push(run.get(urgent));
    }
  }
  const provider: Provider = { provide: 'hours', useValue: new Hours() };
  const research = subRunTool({
    id: 'research',
    description: 'Finds out.',
    tools: ['probe__*'],
    model: new ScriptedModel([text('Found.')]),
  });
  const module = await openModule(
    new ScriptedModel(script),
    { ...options, providers: [provider], tools: [research] },
    { night: { plugins: [urgent.of('at night')] } },
  );
  const loop: ToolLoopService = module.get(ToolLoopService);
  return { loop, module, seen, urgent };
}

const withValues = (...plugins: readonly PluginValue[]): LoopRequest => ask({ plugins });

describe('the values that a request gives plugins', () => {
  it('are those with which their slots begin', async () => {
    const { loop, seen, urgent } = await shop([text('One.'), text('Two.')]);
    await play(loop, withValues(urgent.of('now')));
    await play(loop, ask());
    expect(seen).toEqual(['now', 'whenever']);
  });

  it.each([
    ['share', ['now', 'now', 'now']],
    ['fresh', ['now', 'now', 'now']],
  ] as const)('hold in a sub-run as well, whose slot is one to %s', async (inherit, expected) => {
    const script = [calls(call('research', { prompt: 'Find.' })), text('Done.')];
    const { loop, seen, urgent } = await shop(script, inherit);
    await play(loop, withValues(urgent.of('now')));
    expect(seen).toEqual(expected);
  });

  it('are those of its loop if it gives none, and take their place if it does', async () => {
    const { module, seen, urgent } = await shop([text('One.'), text('Two.')]);
    const loop: ToolLoopService = module.get(toolLoopToken('night'));
    await play(loop, ask());
    await play(loop, withValues(urgent.of('now')));
    expect(seen).toEqual(['at night', 'now']);
  });

  it('are kept while the run waits', async () => {
    const { loop, module, seen, urgent } = await shop([calls(write()), text('Done.')], 'share', {
      policy: asking(),
    });
    const request = ask({ context: { act: (key: string) => key } });
    const result = await resultOf(loop.open({ ...request, plugins: [urgent.of('now')] }));
    expect(result.finishReason).toBe('waiting');
    const pending: PendingService = module.get(PendingService);
    const [asked] = await pending.list(alice);
    await pending.decide({ approvalId: asked?.approvalId ?? '', decision: 'approve' }, alice);
    const { prompt: _asked, ...rest } = request;
    await (
      await loop.resume(result.runId, rest)
    ).result;
    expect(seen).toEqual(['now', 'now']);
  });

  it.each([
    ['of a plugin that is not there', () => ({ slot: 'acme.other/x', value: 1 }), 'No plugin has'],
    ['of a slot that is not saved', () => ({ slot: 'acme.hours/unsaved', value: 1 }), 'not saved'],
    ['that are none', () => ({ slot: 'acme.hours/urgency', value: 7 }), 'is not what it must be'],
    ['without a slot', () => ({ value: 7 }), 'plugins'],
  ])('%s are refused, and no run begins', async (_what, given, problem) => {
    const { loop, seen } = await shop([text('Never.')]);
    const request = withValues(given() as PluginValue);
    expect(() => loop.open(request)).toThrow(ConfigurationError);
    expect(() => loop.open(request)).toThrow(problem);
    expect(seen).toEqual([]);
  });
});
