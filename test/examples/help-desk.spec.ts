import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ToolLoopClient } from '@toolloop/client';
import type { LoopEvent } from '@toolloop/core';
import { HelpDeskModule, TicketTools } from '../../examples/help-desk/help-desk.js';

/** The last event of a stream. */
async function read(stream: AsyncIterable<LoopEvent>): Promise<LoopEvent | undefined> {
  let last: LoopEvent | undefined;
  for await (const event of stream) last = event;
  return last;
}

describe('the help desk', () => {
  let app: INestApplication;
  let url = '';
  beforeAll(async () => {
    app = (
      await Test.createTestingModule({ imports: [HelpDeskModule] }).compile()
    ).createNestApplication();
    app.useLogger(false);
    await app.listen(0, '127.0.0.1');
    url = (await app.getUrl()).replace('[::1]', '127.0.0.1');
  });
  afterAll(() => app.close());

  const clientOf = (name: string): ToolLoopClient =>
    new ToolLoopClient({ url, headers: () => ({ authorization: `Bearer ${name}` }) });
  it('closes a ticket when its lead has said yes, and the one who asked cannot say it', async () => {
    const [ann, lee] = [clientOf('ann'), clientOf('lee')];
    const [printer] = app.get(TicketTools).tickets;
    const asked = await read(ann.ask({ message: 'Close the ticket about the printer' }));
    expect([asked, printer?.status]).toEqual([
      expect.objectContaining({ finishReason: 'waiting' }),
      'open',
    ]);
    const [call] = await lee.approvals();
    await expect(ann.decide(call?.approvalId ?? '', 'approve')).rejects.toMatchObject({
      status: 403,
    });
    await lee.decide(call?.approvalId ?? '', 'approve');
    const closed = await read(ann.resume(asked?.runId ?? ''));
    expect([closed, printer?.status]).toEqual([
      expect.objectContaining({ finishReason: 'stop' }),
      'closed',
    ]);
  });
});
