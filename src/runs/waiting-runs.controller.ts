import { Controller, HttpCode, Param, Post, RequestMethod, Sse, UseGuards, type MessageEvent } from '@nestjs/common';
import { InvalidRequestError, type LoopResult, ToolLoopService } from '@toolloop/core';
import { RunService, type RunView } from '@toolloop/durable';
import { toSse } from '@toolloop/ui-stream';
import type { Observable } from 'rxjs';
import { Answer } from '../chat/chat.dto.js';
import { ClientSignal } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { User } from '../identity/user.js';
import { termsFor } from '../policy.js';
import { RunEvents } from './run-events.js';

/** Goes on with runs that waited for a decision, each in the name of the user who began it. */
@Controller('runs/:runId')
@UseGuards(BearerGuard)
export class WaitingRunsController {
  constructor(
    private readonly loop: ToolLoopService<User>,
    private readonly runs: RunService<User>,
    private readonly events: RunEvents,
  ) {}

  /** A durable run goes on by itself once somebody has decided: it is looked at again, for what has expired, and its events are shown from the first. */
  @Sse('resume', { method: RequestMethod.POST })
  @HttpCode(200)
  async resume(@Param('runId') runId: string, @CurrentUser() user: User): Promise<Observable<MessageEvent>> {
    const kept = await this.durable(runId, user);
    if (!kept) return (await this.loop.resume(runId, termsFor(user))).events$.pipe(toSse());
    const reader = { actor: user, tenant: user.tenantId };
    if (kept.status === 'waiting') await this.runs.resume(runId, reader);
    return this.events.follow(runId, reader, 0);
  }

  /** For runs of `POST /chat/answer`, which are not durable. */
  @Post('answer')
  @HttpCode(200)
  async answer(@Param('runId') runId: string, @CurrentUser() user: User, @ClientSignal() signal: AbortSignal): Promise<LoopResult<Answer>> {
    const run = await this.loop.resume(runId, { ...termsFor(user), output: Answer, signal });
    return run.result;
  }

  private async durable(runId: string, user: User): Promise<RunView | undefined> {
    try {
      return await this.runs.get(runId, { actor: user, tenant: user.tenantId });
    } catch (error) {
      if (error instanceof InvalidRequestError && error.code === 'unknown_run') return undefined;
      throw error;
    }
  }
}
