import { Injectable } from '@nestjs/common';
import { Mailer, type Mail } from './mailer.js';

/** Keeps the mails instead of sending them. */
@Injectable()
export class OutboxMailer extends Mailer {
  private readonly sent = new Map<string, Mail>();

  get mails(): readonly Mail[] {
    return [...this.sent.values()];
  }

  override send(mail: Mail, idempotencyKey: string): Promise<string> {
    if (!this.sent.has(idempotencyKey)) this.sent.set(idempotencyKey, mail);
    return Promise.resolve(`m-${[...this.sent.keys()].indexOf(idempotencyKey) + 1}`);
  }
}
