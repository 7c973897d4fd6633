import { Injectable } from '@nestjs/common';

/** What the time is, for whoever needs to be told a different one in a test or a demo. */
export abstract class Clock {
  abstract now(): Date;
}

/** Real time: for what really expires. */
@Injectable()
export class SystemClock extends Clock {
  override now(): Date {
    return new Date();
  }
}

/** A day that stands still: the order desk's own, so that "the last 12 months" hold the same orders today and next year. */
export class FixedClock extends Clock {
  constructor(private readonly instant: Date) {
    super();
  }

  override now(): Date {
    return new Date(this.instant);
  }
}
