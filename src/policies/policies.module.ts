import {
  BadRequestException,
  Body,
  Controller,
  Get,
  HttpCode,
  Module,
  Param,
  ParseIntPipe,
  Post,
  Query,
  UseGuards,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { ConfigurationError, type Policy } from '@toolloop/core';
import { PolicyService } from '@toolloop/core/runs';
import { Transform } from 'class-transformer';
import { IsDefined, IsInt, IsOptional, IsString } from 'class-validator';
import { catchError, type Observable } from 'rxjs';
import { STRICT } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { IdentityModule } from '../identity/identity.module.js';
import { principalOf, type User } from '../identity/user.js';

const toNumber = Transform(({ value }) => Number(value));

/** A page of versions. */
export class VersionPage {
  @IsOptional() @toNumber @IsInt() limit?: number;
  @IsOptional() @toNumber @IsInt() before?: number;
}

/** The two versions to compare. */
export class VersionPair {
  @toNumber @IsInt() from!: number;
  @toNumber @IsInt() to!: number;
}

/** The reason for an action, which stays with it. */
export class Reasoned {
  @IsString() reason!: string;
}

/** The change that follows a version: of two that follow the same one, the second is a 409. */
export class PolicyChange extends Reasoned {
  @IsInt() expected!: number;
}

/** Policies to put in force. What is wrong with them is told with the place of each mistake. */
export class NewPolicy extends PolicyChange {
  @IsDefined() policy!: Policy | Policy[];
}

/** The runs to look at again, and by what: a version, or policies that were never put. Without both it is what the tenant started with. */
export class ReplayOrder {
  @IsOptional() @IsInt() version?: number;
  @IsOptional() policy?: Policy | Policy[];
  @IsString({ each: true }) runs!: string[];
}

/** The target of a kill switch; without a tool and a source it is everything of the tenant. */
export class StopOrder extends Reasoned {
  @IsOptional() @IsString() tool?: string;
  @IsOptional() @IsString() source?: string;
}

/** Answers policies with findings as a mistake of the caller, which here they are. */
class PolicyFindings implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      catchError((error: unknown) => {
        if (!(error instanceof ConfigurationError)) throw error;
        const message = error.findings.map(({ at, problem, remedy }) => `${at}: ${problem} ${remedy}`);
        throw new BadRequestException({ code: 'invalid_policy', message });
      }),
    );
  }
}

/** The policies of the operator's tenant, which narrow those of the application, and what is stopped there. */
@Controller('policies')
@UseGuards(BearerGuard)
@UseInterceptors(PolicyFindings)
export class PoliciesController {
  constructor(private readonly policies: PolicyService<User>) {}

  @Get()
  versions(@Query(STRICT) page: VersionPage, @CurrentUser() user: User): ReturnType<PolicyService['versions']> {
    return this.policies.versions(principalOf(user), page);
  }

  @Post()
  put(@Body(STRICT) { policy, ...put }: NewPolicy, @CurrentUser() user: User): ReturnType<PolicyService['put']> {
    return this.policies.put(policy, principalOf(user), put);
  }

  @Get('diff')
  diff(@Query(STRICT) { from, to }: VersionPair, @CurrentUser() user: User): ReturnType<PolicyService['diff']> {
    return this.policies.diff(from, to, principalOf(user));
  }

  @Get('stops')
  stops(@CurrentUser() user: User): ReturnType<PolicyService['stops']> {
    return this.policies.stops(principalOf(user));
  }

  @Post('stops')
  stop(@Body(STRICT) { reason, ...target }: StopOrder, @CurrentUser() user: User): ReturnType<PolicyService['stop']> {
    return this.policies.stop(target, principalOf(user), { reason });
  }

  @Post('stops/:stopId/release')
  @HttpCode(204)
  release(@Param('stopId') stopId: string, @Body(STRICT) { reason }: Reasoned, @CurrentUser() user: User): Promise<void> {
    return this.policies.release(stopId, principalOf(user), { reason });
  }

  @Post('replay')
  @HttpCode(200)
  replay(@Body(STRICT) { version, policy, runs }: ReplayOrder, @CurrentUser() user: User): ReturnType<PolicyService['replay']> {
    return this.policies.replay(policy ?? version ?? 0, runs, principalOf(user));
  }

  @Get(':number')
  get(@Param('number', ParseIntPipe) number: number, @CurrentUser() user: User): ReturnType<PolicyService['get']> {
    return this.policies.get(number, principalOf(user));
  }

  @Post(':number/rollback')
  rollback(
    @Param('number', ParseIntPipe) number: number,
    @Body(STRICT) change: PolicyChange,
    @CurrentUser() user: User,
  ): ReturnType<PolicyService['rollback']> {
    return this.policies.rollback(number, principalOf(user), change);
  }
}

@Module({ imports: [IdentityModule], controllers: [PoliciesController] })
export class PoliciesModule {}
