/** A letter to a customer. */
export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** The port to whoever delivers mail. */
export abstract class Mailer {
  /** Delivers once per key, however often it is called; answers with the message's id. */
  abstract send(mail: Mail, idempotencyKey: string): Promise<string>;
}
