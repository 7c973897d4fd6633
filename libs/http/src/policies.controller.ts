import {
  BadRequestException,
  Body,
  type CallHandler,
  type ExecutionContext,
  Get,
  HttpCode,
  type NestInterceptor,
  Param,
  ParseIntPipe,
  Post,
  Query,
  UseInterceptors,
} from '@nestjs/common';
import { ConfigurationError } from '@toolloop/core';
import { PolicyService } from '@toolloop/core/runs';
import { catchError, type Observable } from 'rxjs';
import { CallerController, CurrentCaller, STRICT } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import {
  NewPolicy,
  PolicyChange,
  Reasoned,
  ReplayOrder,
  StopOrder,
  VersionPage,
  VersionPair,
} from './requests.dto.js';

/** Answers policies with findings as a mistake of the caller, which here they are. */
class PolicyFindings implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      catchError((error: unknown) => {
        if (!(error instanceof ConfigurationError)) throw error;
        const message = error.findings.map(
          ({ at, problem, remedy }) => `${at}: ${problem} ${remedy}`,
        );
        throw new BadRequestException({ code: 'invalid_policy', message });
      }),
    );
  }
}

/**
 * The policies of the operator's tenant, which narrow those of the application, and what is stopped
 * there.
 */
@CallerController('policies')
@UseInterceptors(PolicyFindings)
export class PoliciesController {
  constructor(private readonly policies: PolicyService) {}

  @Get()
  versions(
    @Query(STRICT) listing: VersionPage,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ): ReturnType<PolicyService['versions']> {
    return pages.of(
      listing,
      (page) => this.policies.versions(caller, page),
      ({ number }) => ({ before: number }),
    );
  }

  @Post()
  put(
    @Body(STRICT) { policy, ...put }: NewPolicy,
    @CurrentCaller() caller: Caller,
  ): ReturnType<PolicyService['put']> {
    return this.policies.put(policy, caller, put);
  }

  @Get('diff')
  diff(
    @Query(STRICT) { from, to }: VersionPair,
    @CurrentCaller() caller: Caller,
  ): ReturnType<PolicyService['diff']> {
    return this.policies.diff(from, to, caller);
  }

  @Get('stops')
  stops(@CurrentCaller() caller: Caller): ReturnType<PolicyService['stops']> {
    return this.policies.stops(caller);
  }

  @Post('stops')
  stop(
    @Body(STRICT) { reason, everywhere = false, ...target }: StopOrder,
    @CurrentCaller() caller: Caller,
  ): ReturnType<PolicyService['stop']> {
    return this.policies.stop(target, caller, { reason, everywhere });
  }

  @Post('stops/:stopId/release')
  @HttpCode(204)
  release(
    @Param('stopId') stopId: string,
    @Body(STRICT) { reason }: Reasoned,
    @CurrentCaller() caller: Caller,
  ): Promise<void> {
    return this.policies.release(stopId, caller, { reason });
  }

  @Post('replay')
  @HttpCode(200)
  replay(
    @Body(STRICT) { version, policy, runs }: ReplayOrder,
    @CurrentCaller() caller: Caller,
  ): ReturnType<PolicyService['replay']> {
    return this.policies.replay(policy ?? version ?? 0, runs, caller);
  }

  @Get(':number')
  get(
    @Param('number', ParseIntPipe) number: number,
    @CurrentCaller() caller: Caller,
  ): ReturnType<PolicyService['get']> {
    return this.policies.get(number, caller);
  }

  @Post(':number/rollback')
  rollback(
    @Param('number', ParseIntPipe) number: number,
    @Body(STRICT) change: PolicyChange,
    @CurrentCaller() caller: Caller,
  ): ReturnType<PolicyService['rollback']> {
    return this.policies.rollback(number, caller, change);
  }
}
