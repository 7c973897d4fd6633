import { afterEach, describe, expect, it } from '@jest/globals';
import { type CanActivate, type ExecutionContext, Inject, Injectable, Scope } from '@nestjs/common';
import { APP_GUARD, REQUEST } from '@nestjs/core';
import { type RunContext, ToolExecutionContext } from '@toolloop/core';
import { closeAll, connect, ERAS, serve } from './served-notes.js';

afterEach(closeAll);

/** Lets requests of HTTP in and all who find notes, and to the other tools mia alone. */
@Injectable({ scope: Scope.REQUEST })
class MiaGuard implements CanActivate {
  constructor(
    @Inject(REQUEST) private readonly request: Partial<RunContext<{ readonly id: string }>>,
  ) {}

  canActivate(context: ExecutionContext): boolean {
    return (
      !ToolExecutionContext.isToolCall(context) ||
      context.getHandler().name === 'find' ||
      this.request.actor?.id === 'mia'
    );
  }
}

describe.each(ERAS)('a global guard of request scope in the era of %s', (era) => {
  it.each(['notes__read', 'notes__send', 'note_n1_edit'])('decides about %s', async (name) => {
    const served = await serve({
      loop: { providers: [{ provide: APP_GUARD, useClass: MiaGuard }] },
    });
    const called = async (token: string) => {
      const client = await connect(served, { era, token });
      // which brings the tools of a note
      await client.callTool({ name: 'notes__find', arguments: { word: 'tea' } });
      return client.callTool({
        name,
        arguments: { notes__read: { id: 'n1' }, notes__send: { to: 'a@b.c' } }[name] ?? {
          text: 'new',
        },
      });
    };
    expect((await called('mia')).isError ?? false).toBe(false);
    const refused = await called('alice');
    expect([refused.isError, JSON.stringify(refused.content)]).toEqual([
      true,
      expect.stringContaining('forbidden'),
    ]);
  });
});
