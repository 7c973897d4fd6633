import { Controller, Get, Module, Query, UseGuards } from '@nestjs/common';
import { UsageService, type UsageReport } from '@toolloop/core/usage';
import { Transform } from 'class-transformer';
import { IsIn, IsInt, IsOptional, IsString } from 'class-validator';
import { STRICT } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { IdentityModule } from '../identity/identity.module.js';
import { principalOf, type User } from '../identity/user.js';

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 30;
const DIMENSIONS = ['day', 'actor', 'tool', 'model'] as const;

/** A selection of what was used. `?groupBy=day,model` has a row for each day and model. */
export class UsageSelection {
  @IsOptional() @IsString() tenant?: string;
  @IsOptional() @IsString() actor?: string;
  @IsOptional() @IsString() tool?: string;
  @IsOptional() @IsString() model?: string;
  @IsOptional() @IsString() from?: string;
  @IsOptional() @IsString() to?: string;
  @IsOptional()
  @Transform(({ value }) => (typeof value === 'string' ? value.split(',') : (value as unknown)))
  @IsIn(DIMENSIONS, { each: true })
  groupBy?: (typeof DIMENSIONS)[number][];
  @IsOptional() @Transform(({ value }) => Number(value)) @IsInt() limit?: number;
  @IsOptional() @IsString() after?: string;
}

/** The use of models and tools: people see their own, and operators that of their tenant. */
@Controller('usage')
@UseGuards(BearerGuard)
export class UsageController {
  constructor(private readonly usage: UsageService<User>) {}

  /** Reports the last 30 days of the user's own tenant, unless the selection says otherwise. */
  @Get()
  report(@Query(STRICT) selection: UsageSelection, @CurrentUser() user: User): Promise<UsageReport> {
    const { tenant = user.tenantId, to = dayOf(Date.now()), from = dayOf(Date.now() - DEFAULT_DAYS * DAY_MS), ...rest } = selection;
    return this.usage.report({ ...rest, tenant, from, to }, principalOf(user));
  }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

@Module({ imports: [IdentityModule], controllers: [UsageController] })
export class UsageModule {}
