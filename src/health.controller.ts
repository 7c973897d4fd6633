import { Controller, Get, HttpStatus, Res } from '@nestjs/common';
import { PolicyService } from '@toolloop/core/runs';
import { DurableHealth, type Readiness } from '@toolloop/durable';
import type { Response } from 'express';

/** The answer of `GET /health/ready`. */
export interface ReadyAnswer {
  readonly status: 'ready' | 'leaving' | 'unavailable';
  readonly database: Readiness['database'];
}

/** Tells a load balancer or an orchestrator whether to send requests and whether to restart the process. It needs no token and tells no more. */
@Controller('health')
export class HealthController {
  constructor(
    private readonly durable: DurableHealth,
    private readonly policies: PolicyService,
  ) {}

  /** Answers while the process lives. A database that is down is no reason to restart it. */
  @Get()
  health(): { readonly status: 'ok' } {
    return { status: 'ok' };
  }

  /**
   * Answers whether to send requests: 503 while the database does not answer, while it is unknown which policy is in force, and from the moment that the process is told to
   * stop.
   */
  @Get('ready')
  async ready(@Res({ passthrough: true }) response: Response): Promise<ReadyAnswer> {
    const { isReady, isLeaving, database } = await this.durable.readiness();
    if (isReady && this.policies.isReady) return { status: 'ready', database };
    response.status(HttpStatus.SERVICE_UNAVAILABLE);
    return { status: isLeaving ? 'leaving' : 'unavailable', database };
  }
}
