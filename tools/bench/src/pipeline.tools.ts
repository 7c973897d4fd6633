import {
  Injectable,
  UseGuards,
  UseInterceptors,
  type CallHandler,
  type CanActivate,
  type NestInterceptor,
} from '@nestjs/common';
import { LlmTool, ToolInput, ToolProvider } from '@toolloop/core';
import { IsBoolean, IsEmail, IsInt, IsString, Max, MaxLength, Min } from 'class-validator';
import type { Observable } from 'rxjs';

/** Ajv alone can check it. */
export class PlainInput {
  @IsString() @MaxLength(80) name!: string;
  @IsInt() @Min(1) @Max(50) limit!: number;
  @IsBoolean() active!: boolean;
}

/** An email address needs class-validator. */
export class CheckedInput {
  @IsEmail() name!: string;
  @IsInt() @Min(1) @Max(50) limit!: number;
  @IsBoolean() active!: boolean;
}

/** Tells that Nest's enhancers were asked. */
@Injectable()
export class OpenGuard implements CanActivate {
  static asked = 0;

  canActivate(): boolean {
    OpenGuard.asked += 1;
    return true;
  }
}

@Injectable()
export class PassingInterceptor implements NestInterceptor {
  static asked = 0;

  intercept(_context: unknown, next: CallHandler): Observable<unknown> {
    PassingInterceptor.asked += 1;
    return next.handle();
  }
}

interface Found {
  readonly found: number;
}

/**
 * Tools that do nothing, so that what is measured is what is around them. All are asynchronous, as
 * tools are.
 */
@Injectable()
@ToolProvider({ namespace: 'bench' })
export class PipelineTools {
  @LlmTool({ description: 'Takes what Ajv alone can check.', effect: 'read_only', reveal: 'all' })
  plain(@ToolInput() { limit }: PlainInput): Promise<Found> {
    return Promise.resolve({ found: limit });
  }

  @LlmTool({
    description: 'Takes what only class-validator can check.',
    effect: 'read_only',
    reveal: 'all',
  })
  checked(@ToolInput() { limit }: CheckedInput): Promise<Found> {
    return Promise.resolve({ found: limit });
  }

  @LlmTool({ description: 'Takes nothing.', effect: 'read_only', reveal: 'all' })
  nothing(): Promise<Found> {
    return Promise.resolve({ found: 1 });
  }

  @LlmTool({ description: 'Changes something.', effect: 'state_change', reveal: 'all' })
  change(@ToolInput() { limit }: PlainInput): Promise<Found> {
    return Promise.resolve({ found: limit });
  }

  @UseGuards(OpenGuard)
  @UseInterceptors(PassingInterceptor)
  @LlmTool({
    description: 'Is behind a guard and an interceptor.',
    effect: 'read_only',
    reveal: 'all',
  })
  guarded(@ToolInput() { limit }: PlainInput): Promise<Found> {
    return Promise.resolve({ found: limit });
  }
}
