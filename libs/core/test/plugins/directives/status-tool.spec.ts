import { describe, expect, it } from '@jest/globals';
import { call, calls, text } from '@toolloop/testing';
import { alice, bob, desk, mia, OPEN, once } from './bench.js';

const ID = 'directives__status';
const waiting = { directives: { perform: false } };
const status = (directive_id: string) => [calls(call(ID, { directive_id })), text('So it is.')];

describe('the tool that tells what became of a directive', () => {
  it('is listed where policy allows it, in an application that has directives', async () => {
    const { loop } = await desk();
    expect((await loop.list(alice)).map(({ id }) => id)).toEqual(['bank__refund', ID]);
    const narrow = await desk(once, { policy: { ...OPEN, allow: ['bank__*'] } });
    expect((await narrow.loop.list(alice)).map(({ id }) => id)).toEqual(['bank__refund']);
  });

  it('shows status and failure, and not what the effect returned', async () => {
    const first = await desk();
    await first.run();
    const { directiveId } = await first.until('succeeded');
    const { run } = await desk(status(directiveId), { ...waiting, shared: first.shared });
    const { toolCalls } = await run();
    expect(toolCalls[0]?.result).toEqual({
      directive_id: directiveId,
      type: 'order.refund',
      subject: 'o-1',
      task: 'perform',
      status: 'succeeded',
      attempts: 1,
    });
  });

  it.each([
    ['another tenant', bob],
    ['a colleague who is no operator', { actor: { id: 'carl', roles: ['clerk'] }, tenant: 'acme' }],
  ])('knows nothing of it for %s, as of an id that was never given', async (_, who) => {
    const first = await desk();
    await first.run();
    const { directiveId } = await first.until('succeeded');
    const { run } = await desk([...status(directiveId), ...status('dir_none')], {
      ...waiting,
      shared: first.shared,
    });
    const answers = [await run(who), await run(who)].map(
      ({ toolCalls }) => toolCalls[0]?.error?.safeMessage,
    );
    expect(answers).toEqual(['There is no such directive.', 'There is no such directive.']);
  });

  it('tells an operator', async () => {
    const operated = { directives: { operators: ['manager'] } };
    const first = await desk(once, operated);
    await first.run();
    const { directiveId } = await first.until('succeeded');
    const { run } = await desk(status(directiveId), { ...operated, shared: first.shared });
    expect((await run(mia)).toolCalls[0]?.result).toMatchObject({ status: 'succeeded' });
  });
});
