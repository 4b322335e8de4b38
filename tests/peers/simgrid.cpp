// Messages over shared links, timed by SimGrid: a second opinion on collcost's simulators.
//
// Standard input: the number of links and their rates in B/s; the number of hosts; the number of
// routes, each as from, to, the number of its links and these; the number of messages, each as
// from, to, bytes, the time before which it does not begin, what it waits without moving, how long
// the receiver adds it, and two lists, each with its length first: messages that must have been
// added, and messages that must have been sent, all with lower numbers. Standard output: for each
// message when it was sent and when it was added.
//
// Links have no latency of their own: SimGrid would weigh shares by it. A receiver adds one thing
// after another, in the order in which they come.
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg4 = simgrid::s4u;

struct Message {
    int from, to;
    double bytes, at, wait, adding;
    std::vector<int> added, sent;
    double was_sent = 0, was_added = 0;
    // Up for good once the message is sent, and once it is added.
    sg4::SemaphorePtr is_sent, is_added;
};

template <typename T> static T read()
{
    T value;
    if (!(std::cin >> value)) {
        std::fprintf(stderr, "the input ends too soon\n");
        std::exit(2);
    }
    return value;
}

static std::vector<int> numbers()
{
    std::vector<int> list(read<int>());
    for (int& number : list)
        number = read<int>();
    return list;
}

static void await(const sg4::SemaphorePtr& gate)
{
    gate->acquire();
    gate->release();
}

// A setting whose name is another in later releases.
static void finer(const char* setting, const char* later)
{
    try {
        sg4::Engine::set_config(setting);
    } catch (const std::out_of_range&) {
        sg4::Engine::set_config(later);
    }
}

int main(int argc, char** argv)
{
    sg4::Engine engine(&argc, argv);
    // Plain max-min: rates bound by links alone, and shared alike.
    for (const char* setting :
         {"network/model:CM02", "network/crosstraffic:0", "network/weight-S:0", "network/TCP-gamma:1e30"})
        sg4::Engine::set_config(setting);
    finer("surf/precision:1e-15", "precision/timing:1e-15");
    finer("maxmin/precision:1e-6", "precision/work-amount:1e-6");

    auto* zone = sg4::create_full_zone("zone");
    std::vector<const sg4::Link*> links(read<int>());
    for (size_t i = 0; i < links.size(); i++)
        links[i] = zone->create_link("link" + std::to_string(i), read<double>())->set_latency(0)->seal();
    std::vector<sg4::Host*> hosts(read<int>());
    for (size_t i = 0; i < hosts.size(); i++)
        hosts[i] = zone->create_host("host" + std::to_string(i), 1e9)->seal();
    for (int routes = read<int>(); routes > 0; routes--) {
        auto* from = hosts.at(read<int>());
        auto* to = hosts.at(read<int>());
        std::vector<sg4::LinkInRoute> way;
        for (int link : numbers())
            way.emplace_back(links.at(link));
        zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, way, false);
    }
    zone->seal();

    std::vector<Message> messages(read<int>());
    std::vector<sg4::SemaphorePtr> adder;
    for (size_t i = 0; i < hosts.size(); i++)
        adder.push_back(sg4::Semaphore::create(1));
    for (Message& message : messages) {
        message.from = read<int>();
        message.to = read<int>();
        message.bytes = read<double>();
        message.at = read<double>();
        message.wait = read<double>();
        message.adding = read<double>();
        message.added = numbers();
        message.sent = numbers();
        message.is_sent = sg4::Semaphore::create(0);
        message.is_added = sg4::Semaphore::create(0);
    }
    for (Message& message : messages) {
        auto* from = hosts.at(message.from);
        auto* to = hosts.at(message.to);
        sg4::Actor::create("message", from, [&messages, &message, &adder, from, to] {
            sg4::this_actor::sleep_until(message.at);
            for (int before : message.added)
                await(messages.at(before).is_added);
            for (int before : message.sent)
                await(messages.at(before).is_sent);
            sg4::this_actor::sleep_for(message.wait);
            sg4::Comm::sendto(from, to, static_cast<uint64_t>(message.bytes));
            message.was_sent = sg4::Engine::get_clock();
            message.is_sent->release();
            if (message.adding > 0) {
                adder[message.to]->acquire();
                sg4::this_actor::sleep_for(message.adding);
                adder[message.to]->release();
            }
            message.was_added = sg4::Engine::get_clock();
            message.is_added->release();
        });
    }
    engine.run();
    for (const Message& message : messages)
        std::printf("%.17g %.17g\n", message.was_sent, message.was_added);
    return 0;
}
