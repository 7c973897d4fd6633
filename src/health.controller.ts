import { Controller, Get, HttpStatus, Res } from '@nestjs/common';
import { DurableHealth, type Readiness } from '@toolloop/durable';
import type { Response } from 'express';

/** What `GET /health/ready` tells. */
export interface ReadyAnswer {
  readonly status: 'ready' | 'leaving' | 'unavailable';
  readonly database: Readiness['database'];
}

/** For whoever watches the process; no token is needed, and no more is told than whether to leave it alone, or to restart it. */
@Controller('health')
export class HealthController {
  constructor(private readonly durable: DurableHealth) {}

  /** It lives. A database that is down is no reason to restart it. */
  @Get()
  health(): { readonly status: 'ok' } {
    return { status: 'ok' };
  }

  /** Whether to send it requests: 503 while the database does not answer, and from the moment it is told to stop. */
  @Get('ready')
  async ready(@Res({ passthrough: true }) response: Response): Promise<ReadyAnswer> {
    const { isReady, isLeaving, database } = await this.durable.readiness();
    if (isReady) return { status: 'ready', database };
    response.status(HttpStatus.SERVICE_UNAVAILABLE);
    return { status: isLeaving ? 'leaving' : 'unavailable', database };
  }
}
