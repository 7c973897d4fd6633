import { Controller, HttpCode, Param, Post, RequestMethod, Sse, UseGuards, type MessageEvent } from '@nestjs/common';
import { ToolLoopService, type LoopResult } from '@toolloop/core';
import { toSse } from '@toolloop/ui-stream';
import type { Observable } from 'rxjs';
import { Answer } from '../chat/answer.js';
import { ClientSignal } from '../chat/client-signal.decorator.js';
import { BearerGuard } from '../identity/bearer.guard.js';
import { CurrentUser } from '../identity/current-user.decorator.js';
import { User } from '../identity/user.js';
import { termsFor } from '../policy/run-terms.js';

/** Goes on with runs that waited for a decision, each in the name of the user who began it. */
@Controller('runs/:runId')
@UseGuards(BearerGuard)
export class RunsController {
  constructor(private readonly loop: ToolLoopService<User>) {}

  @Sse('resume', { method: RequestMethod.POST })
  @HttpCode(200)
  async resume(@Param('runId') runId: string, @CurrentUser() user: User): Promise<Observable<MessageEvent>> {
    const run = await this.loop.resume(runId, termsFor(user));
    return run.events$.pipe(toSse());
  }

  /** For runs of `POST /chat/answer`. */
  @Post('answer')
  @HttpCode(200)
  async answer(@Param('runId') runId: string, @CurrentUser() user: User, @ClientSignal() signal: AbortSignal): Promise<LoopResult<Answer>> {
    const run = await this.loop.resume(runId, { ...termsFor(user), output: Answer, signal });
    return run.result;
  }
}
