import { Catch, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { Response } from 'express';
import { toErrorAnswer } from './error-answer.js';

/** Answers every error of every route as `{ code, message }`. The cause of a failure of ours goes to the log, never to the caller. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  private readonly logger = new Logger(ErrorFilter.name);

  catch(error: unknown, host: ArgumentsHost): void {
    // A global filter is asked about tool calls too; those errors are for the loop to tell.
    if (host.getType() !== 'http') throw error;
    const { status, body } = toErrorAnswer(error);
    if (status >= 500) this.logger.error(error);
    const response = host.switchToHttp().getResponse<Response>();
    if (response.headersSent) return;
    if (status === 401) response.setHeader('www-authenticate', 'Bearer');
    response.status(status).json(body);
  }
}
