import {
  BadRequestException,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import { ConfigurationError, type Policy } from '@toolloop/core';
import { PolicyService } from '@toolloop/core/runs';
import { catchError, type Observable } from 'rxjs';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

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
@CallerController()
@UseInterceptors(PolicyFindings)
export class PoliciesController {
  constructor(private readonly policies: PolicyService) {}

  @Route('GET /policies')
  versions(
    listing: Asks<'GET /policies'>,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ) {
    return pages.of(
      listing,
      (page) => this.policies.versions(caller, page),
      ({ number }) => ({ before: number }),
    );
  }

  @Route('POST /policies')
  put({ policy, ...put }: Asks<'POST /policies'>, @CurrentCaller() caller: Caller) {
    return this.policies.put(unchecked(policy), caller, put);
  }

  @Route('GET /policies/diff')
  diff({ from, to }: Asks<'GET /policies/diff'>, @CurrentCaller() caller: Caller) {
    return this.policies.diff(from, to, caller);
  }

  @Route('GET /policies/stops')
  stops(@CurrentCaller() caller: Caller) {
    return this.policies.stops(caller);
  }

  @Route('POST /policies/stops')
  stop(
    { reason, everywhere = false, ...target }: Asks<'POST /policies/stops'>,
    @CurrentCaller() caller: Caller,
  ) {
    return this.policies.stop(target, caller, { reason, everywhere });
  }

  @Route('POST /policies/stops/:stopId/release')
  release(
    { stopId, reason }: Asks<'POST /policies/stops/:stopId/release'>,
    @CurrentCaller() caller: Caller,
  ) {
    return this.policies.release(stopId, caller, { reason });
  }

  @Route('POST /policies/replay')
  replay(
    { version, policy, runs }: Asks<'POST /policies/replay'>,
    @CurrentCaller() caller: Caller,
  ) {
    const by = policy ?? version ?? 0;
    return this.policies.replay(typeof by === 'number' ? by : unchecked(by), runs, caller);
  }

  @Route('GET /policies/:number')
  get({ number }: Asks<'GET /policies/:number'>, @CurrentCaller() caller: Caller) {
    return this.policies.get(number, caller);
  }

  @Route('POST /policies/:number/rollback')
  rollback(
    { number, ...change }: Asks<'POST /policies/:number/rollback'>,
    @CurrentCaller() caller: Caller,
  ) {
    return this.policies.rollback(number, caller, change);
  }
}

/** Policies as they were sent: the service checks them, and says what is wrong where. */
function unchecked(policy: object): Policy | readonly Policy[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the service checks it
  return policy as Policy | readonly Policy[];
}
